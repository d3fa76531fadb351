"""Reports: Records and results to text, pictures, HTML and JSON. Nothing here launches anything."""
