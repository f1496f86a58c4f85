# fault: duplicate

from PIL import Image, ImageDraw
for name, text in ((path, "Loss"), (again, "Loss!")):
    image = Image.new("RGB", (1200, 800), "white")
    pen = ImageDraw.Draw(image)
    pen.line([(100, 100), (600, 500), (1100, 300)], fill="blue", width=6)
    pen.text((500, 700), text, fill="black", font_size=40)
    image.save(name)
