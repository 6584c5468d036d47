"""What gcc 12 made of the loops where the time goes, looked up in the release build's code.

It splits a dot product with a broadcast operand into two instructions unless it is made not to, keeps
accumulators on the stack when there is one too many: either costs a fifth. It also moves expressions
to where their value is used, and what they are made of to the stack until then: a third. Other
compilers have habits of their own, which are no fault of the sources: their builds are not judged.
"""

import pathlib
import platform
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OBJECTS = ROOT / "build/release/kernels/CMakeFiles/banyan_kernels.dir/cpu"
ROWS = 16  # of the largest tile; a row and unit are eight dot products
SHORT_ROWS = 4  # of vectors of 256 bits; a row and unit are sixteen products


def must_be_of_gcc_12(path):
    assert path.exists(), "build the release preset first"
    made = re.search(rb"GCC: \([^)]*\) (\d+)\.", path.read_bytes())  # in its .comment
    if made is None or int(made.group(1)) != 12:
        pytest.skip("the release build is not of gcc 12")


def inner_loops(path, function):
    """Instructions of each loop without a jump inside."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", path]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code = re.findall(r"^ +([0-9a-f]+):\t(.*)$", listing, re.M)
    at = {address: index for index, (address, _) in enumerate(code)}
    for index, (_, instruction) in enumerate(code):
        jump = re.match(r"j\w+ +([0-9a-f]+)", instruction)
        begin = at.get(jump.group(1), index) if jump else index
        body = [line for _, line in code[begin:index]]
        if body and not any(re.match(r"j\w+ ", line) for line in body):
            yield body


pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="none of these tables in this build"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump"),
    pytest.mark.skipif(not (ROOT / "build/release").exists(), reason="no release build"),
]


def on_stack(body):
    return [line for line in body if "%rsp" in line or "%rbp)" in line]


@pytest.mark.parametrize("kind", ["q4_0", "q4_1", "q8_0"])
def test_linear_layers_multiply_from_memory_and_stay_in_registers(kind):
    path, sizes = OBJECTS / "avx512/avx512_linear.c.o", set()
    must_be_of_gcc_12(path)
    for body in inner_loops(path, f"k_linear_{kind}_16xn_avx512"):
        dots = [line for line in body if line.startswith("vpdpbusd")]
        if not dots:
            continue
        sizes.add(len(dots) // 8)
        plain = [line for line in dots if "{1to16}" not in line]
        stack = on_stack(body)
        assert not plain, f"{len(dots) // 8} rows: a broadcast apart from its dot product: {plain}"
        assert not stack, f"{len(dots) // 8} rows: on the stack: {stack}"
    assert sizes == set(range(1, ROWS + 1))


def test_dot_products_of_bfloat16_multiply_from_memory_and_stay_in_registers():
    path, sizes = OBJECTS / "avx512/avx512_linear_float.c.o", set()
    must_be_of_gcc_12(path)
    for body in inner_loops(path, "linear_float_dots"):
        dots = [line for line in body if line.startswith("vdpbf16ps")]
        sizes.add(len(dots))
        assert all("{1to16}" in line for line in dots) and not on_stack(body), body
    assert sizes >= set(range(1, ROWS + 1))


@pytest.mark.parametrize("kind", ["q4_0", "q4_1", "q8_0"])
@pytest.mark.parametrize("isa, product", [("avx2", "vpmaddubsw"), ("avxvnni", "vpdpbusd")])
def test_short_vectors_stay_in_registers(isa, product, kind):
    """Sums of floats may wait on the stack, once a unit; sums of products may not."""
    path, sizes = OBJECTS / isa / f"{isa}_linear.c.o", set()
    must_be_of_gcc_12(path)
    for body in inner_loops(path, f"k_linear_{kind}_16xn_{isa}"):
        products = sum(product in line for line in body)
        if products == 0:
            continue
        sizes.add(products // 16)
        stack = on_stack(body)
        assert len(stack) < products * 3 / 4, f"{products // 16} rows: on the stack: {stack}"
    assert sizes == set(range(1, SHORT_ROWS + 1))


def test_attention_of_short_vectors_stays_in_registers():
    """Three queries by 32 keys or dimensions of floats, by 16 keys of bytes; one address may wait."""
    path, kinds = OBJECTS / "avx2/avx2_attention.c.o", set()
    must_be_of_gcc_12(path)
    leaves = ("k_attention_avx2", "k_attention_block_avx2")  # inlined into the first, or not
    for body in [body for leaf in leaves for body in inner_loops(path, leaf)]:
        for product, most in (("vfmadd", 12), ("vpmaddubsw", 6)):
            if sum(line.startswith(product) for line in body) == most:
                kinds.add(product)
                assert len(on_stack(body)) <= 1, f"{product}: on the stack: {on_stack(body)}"
    assert kinds == {"vfmadd", "vpmaddubsw"}
