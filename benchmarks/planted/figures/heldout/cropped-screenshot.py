# fault: border

from PIL import Image, ImageDraw
image = Image.new("RGB", (1400, 900), (250, 250, 250))
pen = ImageDraw.Draw(image)
pen.rectangle([200, -20, 1390, 700], outline="black", width=4)
pen.text((500, 860), "Epochs of training", fill="black", font_size=60)
image.save(path)
