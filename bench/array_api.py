"""Writes docs/array-api.md: the functions of the Python array API standard (2024.12) with what they are called here, or
why they are not there. A name counts as there only if a public function of that name stands in the sources.

    python3 bench/array_api.py [--check]        (--check: writes nothing, ends with 1 where the page is not what it would be)
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = [*(ROOT / "crates/thalweg/src").rglob("*.rs"), ROOT / "crates/thalweg-ir/src/dtype.rs"]
text = "\n".join(p.read_text() for p in SOURCES)
# Written out, or made by one of the macros that make methods from lists.
names = set(re.findall(r"pub (?:const |unsafe )?fn (\w+)", text))
names |= set(re.findall(r"^\s+(\w+) => \w+;", text, re.M))
names |= set(re.findall(r"^\s+(\w+) (\w+) => \w+", text, re.M) and
             [n for pair in re.findall(r"^\s+(\w+) (\w+) => \w+", text, re.M) for n in pair])
names |= set(n for pair in re.findall(r"^\s+(\w+) (\w+) ?\(.*?\) \|", text, re.M) for n in pair)
names |= set(re.findall(r"^    fn (\w+)\(x", text, re.M))
names |= set(n for all in re.findall(r"^\s+((?:\w+ )+)-> \w+, (?:true|false) \|", text, re.M) for n in all.split())
names |= set(re.findall(r"pub struct (\w+)", text))

NO_PROMOTION = "dtypes of tensors are never promoted: operations on two dtypes panic and say to `.cast(..)`"
LINALG = "with the feature `linalg`"
FFT = "with the feature `fft`"

# Each: the standard's name, and the name here (a note behind ;), or "-" and why not.
GROUPS = {
    "Creation": """
arange
asarray: new; `try_from_slice` for a device
empty: zeros; nothing is written before it is needed
empty_like: zeros_like
eye
from_dlpack: from_memory; over memory of another library, without a copy; in Python `from_dlpack`
full
full_like
linspace
meshgrid
ones
ones_like
tril
triu
zeros
zeros_like""",
    "Dtypes": f"""
astype: cast
can_cast: - {NO_PROMOTION}
finfo: float_info; of `DType`
iinfo: int_range; of `DType`
isdtype: is_float; of `DType`, `is_int`, `is_signed`
result_type: - {NO_PROMOTION}""",
    "Elementwise": f"""
abs
acos
acosh
add
asin
asinh
atan
atan2
atanh
bitwise_and: bit_and; operator `&`
bitwise_left_shift: shl; operator `<<`
bitwise_invert: bit_not; operator `!`
bitwise_or: bit_or; operator `|`
bitwise_right_shift: shr; operator `>>`
bitwise_xor: bit_xor; operator `^`
ceil
clip: clamp
conj: conj; of `Complex`
copysign
cos
cosh
divide: div
equal: eq
exp
expm1
floor
floor_divide: floor_div
greater: gt
greater_equal: ge
hypot
imag: Complex; its field `im`
isfinite: is_finite
isinf: is_inf
isnan: is_nan
less: lt
less_equal: le
log
log1p
log2
log10
logaddexp
logical_and: and; operator `&`
logical_not: not; operator `!`
logical_or: or; operator `|`
logical_xor: xor; operator `^`
maximum
minimum
multiply: mul
negative: neg
nextafter
not_equal: ne
positive: - it is `x.clone()`
pow
real: Complex; its field `re`
reciprocal: recip
remainder: rem
round
sign
signbit
sin
sinh
square
sqrt
subtract: sub
tan
tanh
trunc""",
    "Indexing": """
take: index_select
take_along_axis""",
    "Products": """
matmul
matrix_transpose: t
tensordot
vecdot""",
    "Manipulation": """
broadcast_arrays: broadcast_all
broadcast_to
concat: cat
expand_dims: unsqueeze
flip
moveaxis: movedim
permute_dims: permute
repeat: repeat; `repeat_interleave` with a count for each position
reshape
roll
squeeze
stack
tile
unstack: unbind""",
    "Searching": """
argmax
argmin
count_nonzero
nonzero
searchsorted
where: where_""",
    "Sets": """
unique_all
unique_counts
unique_inverse
unique_values: unique""",
    "Sorting": """
argsort
sort""",
    "Statistics": """
cumulative_prod: cumprod
cumulative_sum: cumsum
max: max; or `amax`
mean
min: min; or `amin`
prod
std
sum
var""",
    "Utilities": """
all
any
diff""",
    "linalg (extension)": f"""
linalg.cholesky: cholesky; {LINALG}
linalg.cross: cross
linalg.det: det; {LINALG}
linalg.diagonal: diagonal
linalg.eigh: eigh; {LINALG}
linalg.eigvalsh: eigvalsh; {LINALG}
linalg.inv: inv; {LINALG}
linalg.matrix_norm: matrix_norm; {LINALG}; without it `norm`, Frobenius'
linalg.matrix_power: matrix_power
linalg.matrix_rank: matrix_rank; {LINALG}
linalg.outer: outer
linalg.pinv: pinv; {LINALG}
linalg.qr: qr; {LINALG}
linalg.slogdet: slogdet; {LINALG}
linalg.solve: solve; {LINALG}
linalg.svd: svd; {LINALG}
linalg.svdvals: svdvals; {LINALG}
linalg.trace: trace
linalg.vector_norm: norm_p""",
    "fft (extension)": "\n" + "\n".join(
        [f"fft.{n}: {n}; {FFT}" for n in
         "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft".split()]
        + [f"fft.{n}: {n}" for n in "fftfreq rfftfreq fftshift ifftshift".split()]),
}


def page():
    rows, there, all_main, there_main = [], 0, 0, 0
    for group, lines in GROUPS.items():
        rows.append(f"\n## {group}\n\n| standard | here | |\n|---|---|---|")
        for line in lines.strip().splitlines():
            name, _, rest = line.partition(": ")
            rest = rest or name
            main = "extension" not in group
            all_main += main
            if rest.startswith("- "):
                rows.append(f"| `{name}` | no | {rest[2:]} |")
                continue
            own, _, note = rest.partition("; ")
            if own not in names:
                sys.exit(f"{name}: there is no public function {own}")
            there, there_main = there + 1, there_main + main
            rows.append(f"| `{name}` | `{own}` | {note} |")
    count = sum(len(lines.strip().splitlines()) for lines in GROUPS.values())
    head = f"""# The array API standard

The functions of the [Python array API standard](https://data-apis.org/array-api/2024.12/) (2024.12) with what they are
called in Thalweg, or why they are not there. Of the {all_main} functions of the standard itself {there_main} are there, with
its extensions {there} of {count}. `bench/array_api.py` writes this page, and looks each name up in the sources.

Where behaviour differs: there is no promotion between tensors; indices out of range are errors where a value is read;
what depends on the number of elements (`nonzero`, `unique`) reads that number and returns a `Result`.
"""
    return head + "\n".join(rows) + "\n"


out = ROOT / "docs/array-api.md"
made = page()
if "--check" in sys.argv:
    sys.exit(0 if out.read_text() == made else f"{out} is not what {__file__} writes")
out.write_text(made)
print(made.split("\n\n")[1])
