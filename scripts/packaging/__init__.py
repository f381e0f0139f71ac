"""What becomes of the sources: wheel, sdist, wheelhouse, SBOM, licences; each tried as users would."""
