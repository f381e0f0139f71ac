"""Files of the pages: plain HTML, CSS and JavaScript, served from the package."""
