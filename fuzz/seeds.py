"""Writes seeds/TARGET/NAME: small valid inputs the fuzzers start from. Needs numpy, Pillow and pyarrow; run where this file is.

The first bytes of an input are the settings its target draws; zeros are the defaults.
"""

import gzip
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
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

ROWS = {
    "plain": '{"a": 1, "b": "x", "c": 0.5}\n{"a": 2, "b": "y", "c": null}\n{"a": 3, "b": "x", "c": -1e3}\n',
    "nested": '\ufeff{"a": {"b": [1, 2], "c": {}}, "d": true}\r\n\r\n{"d": false, "a": {"b": [3]}}',
    "escaped": '{"a\\u00e4": "x \\"y\\"\\n", "b": 9007199254740993}\n{"b": 1, "": "?"}\n',
    "late": '{"n": 1}\n' * 30 + '{"n": 2, "m": "z"}\n',
}
for name, text in ROWS.items():
    write("json_lines", name, READ, PREPARE, bytes([8]), text)

# encoding, settings, size of blocks
for at, (name, encoding) in enumerate(
    [("latin", "latin-1"), ("wide", "utf-16-le"), ("wide_big", "utf-16-be"), ("japanese", "shift_jis"), ("chinese", "gb18030")]
):
    words = "größe,ort\n1,Köln\n2,Ulm\n" if name in ("latin", "wide", "wide_big") else "数,名\n1,東京\n2,大阪\n"
    write("encoding", name, bytes([at]), READ, bytes([8]), words.encode(encoding))
write("encoding", "mark", bytes([0]), READ, bytes([8]), "\ufeffa,b\n1,2\n".encode("utf-16-le"))

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

numbers = pa.table({"a": pa.array([1.5, None, 3.0, 4.0, 5.0, 6.0]), "b": pa.array([1, 2, 3, 4, 5, 6], pa.int32())})
words = pa.table({
    "w": pa.array(["x", "yy", None, "x", "NA", ""]).dictionary_encode(),
    "flag": pa.array([True, None, False, True, True, False]),
    "when": pa.array([0, 1, 2, 3, 4, 5], pa.timestamp("ms")),
    "price": pa.array([1, 2, 3, None, 5, 6], pa.decimal128(9, 2)),
    "list": pa.array([[1, 2], [], None, [3], [4, 5], [6]], pa.list_(pa.int16())),
    "none": pa.nulls(6),
})
halves = pa.table({"half": pa.array(np.arange(6, dtype="f2")), "long": pa.array([2**60] * 6), "s": ["é"] * 6})
for name, table, options in [
    ("numbers", numbers, dict(compression="none", use_dictionary=False)),
    ("words", words, dict(compression="zstd", row_group_size=4)),
    ("index", numbers, dict(compression="snappy", write_page_index=True, data_page_size=1, write_batch_size=2)),
    ("version2", halves, dict(compression="gzip", data_page_version="2.0", write_page_checksum=True)),
    ("lz4", words.select(["w", "flag"]), dict(compression="lz4", version="1.0")),
    ("delta", numbers.select(["b"]), dict(column_encoding={"b": "DELTA_BINARY_PACKED"}, use_dictionary=False)),
    ("split", numbers.select(["a"]), dict(column_encoding={"a": "BYTE_STREAM_SPLIT"}, use_dictionary=False)),
]:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    write("parquet", name, READ, out.getvalue())
for name, table, compression, rows in [
    ("numbers", numbers, None, 6),
    ("words", words, None, 4),
    ("lz4", halves, "lz4", 6),
    ("zstd", words, "zstd", 3),
]:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as file:
        file.write_table(table, rows)
    write("arrow", name, READ, out.getvalue())
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table, rows)
    write("arrow", name + "_stream", READ, out.getvalue())

# how the bytes are meant: as they are, as a frame's parts, to be compressed
zstd = lambda text: pa.compress(text.encode(), "zstd", asbytes=True)
for name in ("plain", "many"):
    write("zstd", name, READ, b"\0", zstd(TABLES[name]))
    write("zstd", name + "_compressed", READ, bytes([2, 4]), TABLES[name])
write("zstd", "two_frames", READ, b"\0", zstd("a,b\n1,2\n"), zstd("3,4\n"))
raw, repeated = lambda text: struct.pack("<BH", 0, len(text)) + text, lambda byte, count: struct.pack("<BHB", 1, count, byte)
write("zstd", "frame", READ, b"\1", bytes([0x00, 1, 0x58]), raw(b"a,b\n1,2\n"), repeated(ord("3"), 40), raw(b",4\n"))
write("zstd", "sized", READ, b"\1", bytes([0x20, 1, 8]), raw(b"a,b\n1,2\n"))
write("zstd", "window", READ, b"\1", bytes([0x00, 1, 0xF8]), raw(b"a,b\n1,2\n"))

def safetensors(tensors, **notes):
    header, body = {}, b""
    for name, array in tensors.items():
        kind = {"f4": "F32", "f8": "F64", "f2": "F16", "i8": "I64", "u1": "U8"}[array.dtype.str[1:]]
        start, body = len(body), body + array.tobytes()
        header[name] = dict(dtype=kind, shape=list(array.shape), data_offsets=[start, len(body)])
    header = json.dumps({"__metadata__": notes, **header} if notes else header, separators=(",", ":")).encode()
    return header, body

weights = {"0.weight": np.arange(6, dtype="<f4").reshape(3, 2), "0.bias": np.ones(3, "<f4")}
others = {"module.0.weight": np.ones((3, 2)), "module.0.bias": np.arange(3), "x": np.ones((), "<f2"), "y": np.ones((0, 2), "u1")}
for name, (header, body) in {"same": safetensors(weights, format="pt"), "others": safetensors(others)}.items():
    write("safetensors", name, b"\1", struct.pack("<H", len(header)), header, body)
    write("safetensors", name + "_whole", b"\0", struct.pack("<Q", len(header)), header, body)

# edits: a value of JSON by its number, or a place
value = lambda which, new: struct.pack("<BHB", 0, which, new)
place = lambda at, gone, new: struct.pack("<BHBBB", 1, at & 0xFFFF, at >> 16, gone, len(new)) + new
for model in (0, 1):
    write("model", f"same_{model}", bytes([model, 0, 0]))
    for which in (5, 40, 80, 120, 160):
        write("model", f"value_{model}_{which}", bytes([model, 0, 0]), value(which, 10), value(which + 17, 0))
    write("model", f"weights_{model}", bytes([model, 1, 0]), place(30, 2, b"9"), value(3, 8))
write("model", "whole", bytes([0, 0, 1]), '{"format":"citius-model","version":1}')
write("checkpoint", "same", bytes([0, 1]))
write("checkpoint", "unsealed", bytes([0, 0]), value(60, 1))
for which in (20, 60, 100, 140, 180):
    write("checkpoint", f"value_{which}", bytes([0, 1]), value(which, 8), value(which + 7, 1))
write("checkpoint", "number", bytes([1, 1]), place(9000, 4, b"\0\0\x80\x7f"))
write("checkpoint", "whole", bytes([2, 1]), struct.pack("<Q", 60), '{"__metadata__":{"citius-checksum":"0000000000000000"}}      ')

SETTINGS = {
    "sizes": 'target = "y"\nhidden = [64, 32]\nactivation = "silu"\ndropout = 0.1\nbatch-size = 32\nepochs = 50\n',
    "layers": 'activation = "tanh"\n[[layers]]\nunits = 8\nnorm = "batch"\n[[layers]]\nunits = 8\nresidual = true\n',
    "optimizer": 'optimizer = { name = "sgd", momentum = 0.9, nesterov = true }\nlr = 0.01\nschedule = "cosine"\n',
    "prepare": 'missing = ["x"]\ntext = ["a"]\n[prepare]\nscale = "robust"\ncategorical = "embedding"\npca = { components = 2 }\n',
    "series": 'window = 4\nhorizon = 2\ntarget = 0\nmodel = { name = "gru", hidden = 4, layers = 2 }\n',
    "averages": "swa = 0.5\naccumulate = 2\naverage = 0.9\nclip-norm = 1\npatience = 2\nseed = 7\nvalidation = 0.2\n",
    "loss": 'loss = { name = "cross-entropy", label_smoothing = 0.1 }\npositive = "ok"\ntask = "classes"\nlabel-noise = 0.3\n',
}
for name, text in SETTINGS.items():
    write("settings", name, text)
