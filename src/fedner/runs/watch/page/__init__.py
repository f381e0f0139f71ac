"""The page that shows a run: plain HTML, CSS and JavaScript, served from the package."""
