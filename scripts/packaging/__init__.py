"""What becomes of the sources: wheel, sdist, wheelhouse, SBOM, licences; tried as users would."""
