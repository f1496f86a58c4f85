# fault: blank

from PIL import Image
Image.new("RGB", (900, 600), "white").save(path)
