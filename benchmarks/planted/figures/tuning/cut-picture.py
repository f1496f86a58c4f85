# fault: border

from PIL import Image, ImageDraw
image = Image.new("RGB", (1200, 800), "white")
pen = ImageDraw.Draw(image)
pen.line([(0, 100), (600, 500), (1199, 300)], fill="blue", width=6)
pen.text((-20, 400), "Accuracy of the arms", fill="black", font_size=40); image.save(path)
