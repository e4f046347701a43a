"""Writes seeds/TARGET/NAME: small valid inputs the fuzzers start from. Needs numpy and Pillow; run where this file is.

The first bytes of an input are the settings its target draws; zeros are the defaults.
"""

import gzip
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

READ = bytes(4)  # Draw::read_options
PREPARE = bytes(7)  # Draw::prepare_options
PAGE = 4096


def write(target, name, *parts):
    path = Path("seeds") / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(part.encode() if isinstance(part, str) else part for part in parts))


TABLES = {
    "plain": "a,b,c\n1,x,0.5\n2,y,\n3,x,-1e3\n4,,2\n",
    "semicolon": '"a";"b, c"\r\n1,5;2\r\n"1,7";3\r\n',
    "spaces": "  1 2.5 \"ford pinto\"\n 3\t4  none\n5 6 x\n",
    "tab": "a\tb\n1\t?\nNA\t4\n",
    "comments": "# one\n# two\n1,2\n3,4\n5,inf\n",
    "quotes": 'a,b\n"x ""y""","1\n2"\n"",3\n z ,"4"\n',
    "lone_return": "\ufeffa,b\r1,2\r\r3,4",
    "many": "n,m\n" + "".join(f"{i},{i * i % 7}\n" for i in range(40)),
}
for name, text in TABLES.items():
    write("delimited", name, READ, PREPARE, text)
    write("csv_blocks", name, READ, bytes([8]), text)
write("delimited", "options", bytes([1, 0, 1, 1]), bytes([2, 3, 1, 3, 2, 3, 1]), TABLES["plain"])
write("delimited", "components", READ, bytes([0, 0, 1, 1, 1, 2, 2]), TABLES["many"])

def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=version)
    return out.getvalue()

ARRAYS = {
    "f8": npy(np.arange(6.0).reshape(3, 2)),
    "f4_fortran": npy(np.asfortranarray(np.arange(6, dtype="<f4").reshape(3, 2))),
    "flat_i2": npy(np.arange(4, dtype="<i2")),
    "u1": npy(np.arange(4, dtype="u1").reshape(2, 2)),
    "bool": npy(np.array([True, False])),
    "big_end": npy(np.arange(3, dtype=">f8")),
    "version2": npy(np.array([[1, 2], [3, 4]]), (2, 0)),
    "version3": npy(np.array([[1.0, np.nan], [3, 4]]), (3, 0)),
    "records": npy(np.zeros(2, dtype=[("a", "<f8"), ("b", "<i4")])),
}
for name, array in ARRAYS.items():
    write("npy", name, READ, array)
for name, save in [("stored", np.savez), ("deflated", np.savez_compressed)]:
    out = io.BytesIO()
    save(out, x=np.arange(6.0).reshape(3, 2), y=np.arange(3))
    write("npz", name, READ, b"\0", out.getvalue())
member = lambda method, array: bytes([method]) + struct.pack("<HB", len(array), 0) + array
write("npz", "assembled", READ, b"\1", member(0, ARRAYS["f8"]), member(1, npy(np.arange(3))))

def idx(magic, *sizes, body):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + body

images, labels = idx(2051, 2, 2, 3, body=bytes(range(12))), idx(2049, 2, body=b"\0\1")
write("idx", "images", b"\0", images)
write("idx", "labels", b"\0", labels)
write("idx", "gzip", b"\2", gzip.compress(images, mtime=0))
write("idx", "folder", b"\1", bytes([len(images), len(labels), len(images)]), images, labels, images, labels)

# file, names, whole, count of name bytes, kind of records
write("cifar", "ten", bytes([0, 0, 0, 0, 1]), b"\0\3\7")
write("cifar", "hundred", bytes([1, 0, 0, 0, 2]), b"\0\3\7")
write("cifar", "other", bytes([3, 0, 0, 0, 2]), b"\0")
write("cifar", "folder", bytes([2, 0, 1, 20]), "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", bytes([1]), b"\0\1")
write("cifar", "gzip", bytes([4, 0, 0, 0, 2]), b"\0\1")

# unit, predict, length, stride, one-hot, share, file
write("text", "chars", bytes([0, 0, 3, 1, 0, 64, 0]), "to be, or not to be: é 一 \U0001f600\r\n")
write("text", "bytes", bytes([1, 1, 2, 2, 0, 90, 0]), "to be, or not to be")
write("text", "one_hot", bytes([0, 1, 2, 1, 1, 64, 195]), "\ufeffabcabcabc\n")
write("text", "many", bytes([0, 0, 9, 5, 0, 100, 255]), "".join(chr(0x4E00 + i) for i in range(300)))

write("row_file", "plain", bytes([0, 20]), "# rows\n0\n5\n\n19\r\n 7 \n")
write("row_file", "floats", bytes([255]), "\ufeff1.0\n2e3\n4294967294\n")

# length, stride, horizon, columns, targets, fit rows, missing, four cuts, reach back
series = "date,a,b\n" + "".join(f"2020-01-{i + 1:02},{i},{i * 10}\n" for i in range(12))
write("series", "all", bytes([3, 1, 1, 0, 0, 0, 0, 0, 6, 9, 12, 1]), series)
write("series", "some", bytes([2, 2, 2, 3, 2, 1, 0, 6, 1, 0, 6, 6, 12, 0]), series)
write("series", "gaps", bytes([1, 1, 1, 0, 0, 0, 0, 0, 2, 3, 4, 0]), "a,b\n1,2\n,3\n3,\n4,5\n")

def tiff(order, value):
    entries = [(0x0100, 640), (0x0112, value)]
    packed = b"".join(struct.pack(order + "HHIHH", tag, 3, 1, number, 0) for tag, number in entries)
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "IH", 8, len(entries)) + packed + bytes(4)

for value in (3, 6, 7):
    for kind in range(4):
        write("exif", f"{value}_{kind}", bytes([kind & 1, kind >> 1]), tiff("<>"[kind >> 1], value))

grey = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6) * 10)
pictures = {
    "grey.jpg": (grey, {"quality": 90}),
    "grey.png": (grey, {}),
    "rgb.jpg": (grey.convert("RGB"), {"subsampling": 2}),
    "progressive.jpg": (grey.convert("RGB"), {"progressive": True}),
    "cmyk.jpg": (grey.convert("CMYK"), {}),
    "rgba.png": (grey.convert("RGBA"), {}),
    "palette.png": (grey.convert("P"), {"bits": 2}),
    "lossy.webp": (grey.convert("RGB"), {"quality": 50}),
    "lossless.webp": (grey.convert("RGBA"), {"lossless": True}),
}
for name, (picture, options) in pictures.items():
    out = io.BytesIO()
    form = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}[name.split(".")[1]]
    picture.save(out, form, **options)
    # the targets exif and picture_decode share the plain grey ones
    drawn = b"" if name.startswith("grey") else b"\0"
    write("picture_decode", name, drawn, out.getvalue())

numbers = dict(count=3, missing=0, infinite=0, min=0.0, max=2.0, mean=1.0, deviation=1.0)
field = lambda name, kind, *shape, **more: dict(name=name, kind=kind, shape=list(shape), **more)
stats = lambda name: dict(field=name, all=numbers, columns=[numbers], unknown=0)

def packed(fields, blobs, rows, **more):
    schema = dict(fields=fields)
    return json.dumps(
        dict(schema=schema, bytes=blobs, rows=rows, statistics=[stats(f["name"]) for f in fields], source="s", **more),
        separators=(",", ":"),
    ).encode()

def assembled(description, blocks, fields):
    index = b"".join(struct.pack("<QIIII", PAGE, rows, 0, 0, 0) for rows, _ in blocks)
    sizes = struct.pack("<HBH", len(description), len(blocks), fields)
    pages = b"".join(struct.pack("<H", len(page)) + page for _, page in blocks)
    return b"\0" + sizes + bytes(2) + description + index + pages

page = lambda *parts: b"".join(part.ljust(64, b"\0") for part in parts)
x_y = [field("x", "f32", 2), field("y", "i32", labels=["cat", "dog"])]
block = page(np.arange(6, dtype="<f4").tobytes(), np.array([0, 1, 0], "<i4").tobytes())
write("packed", "two_blocks", assembled(packed(x_y, [], 6, notes={"a": [1]}), [(3, block), (3, block)], 128))

def row_crc(row, start, data):
    return zlib.crc32(struct.pack("<QQQ", row, start, len(data)) + data)

start = 128
blobs = [(start, b"abc"), (start + 3, b""), (start + 3, b"defg")]
entries = b"".join(struct.pack("<QII", at, len(d), row_crc(row, at, d)) for row, (at, d) in enumerate(blobs))
block = page(bytes([1, 2, 3]), entries, b"abcdefg")
write("packed", "bytes", assembled(packed([field("z", "u8")], ["picture"], 3), [(3, block)], 64))
write("packed", "no_rows", assembled(packed(x_y, [], 0), [], 0))
for kind in range(6):
    write("packed_flip", f"kind_{kind}", bytes([kind, 0, 16, 1, 1, 16, 2, 2, 16, 3]))
