"""
The prelude's functions of warps and matrices: mma, ldmatrix, stmatrix. What the host does of them
is told there, for each element of a lane, by the layouts of `dlc.dialects.mma_layouts`.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from dlc.backend.cuda.print.prelude_function import INLINE, Function
from dlc.dialects.layouts import static_shape
from dlc.dialects.mma_layouts import SHAPES, TF32, Fragment, MmaAttr, row_fragment
from dlc.ir.elements import Element, element
from dlc.target import FEATURES


def _c_type(type: VectorType[Attribute]) -> str:
    row, width = element(type.element_type), static_shape(type)[0]
    return f"{row.c}{width}" if row.c in ("float", "int") else f"packed<{row.c}, {width}>"


_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "/",
    AffineBinaryOpKind.Mod: "%",
}


def _expression(expr: AffineExpr) -> str:
    """A layout's expression in C: sums of dimensions, each times, by or modulo constants."""
    match expr:
        case AffineDimExpr():
            return ("lane", "n")[expr.position]
        case AffineConstantExpr():
            return str(expr.value)
        case AffineBinaryOpExpr():
            lhs, rhs = _factor(expr.lhs), _factor(expr.rhs)
            return f"{lhs} {_OPERATORS[expr.kind]} {rhs}"
        case _:
            raise ValueError(f"{expr} is in no layout")


def _factor(expr: AffineExpr) -> str:
    """An operand of an expression, in parentheses where it is one itself."""
    return f"({_expression(expr)})" if isinstance(expr, AffineBinaryOpExpr) else _expression(expr)


def layout_function(fragment: Fragment) -> str:
    """A layout as a function of the host."""
    places = ",\n".join(f"      {_expression(expr)}" for expr in fragment.layout.results)
    return f"[](int lane, int n) {{\n  return dlc::Place{{\n{places}}};\n}}"


def _numbered(first: int, count: int) -> str:
    return f"{{{', '.join(f'%{first + n}' for n in range(count))}}}"


def operands(constraint: str, name: str, count: int) -> str:
    """The elements of an array as operands of an `asm`, a few to a line."""
    each = [f'"{constraint}"({name}[{n}])' for n in range(count)]
    lines = (", ".join(each[n : n + 4]) for n in range(0, count, 4))
    return ",\n               ".join(lines)


def mma_name(shape: MmaAttr, sums: VectorType[Attribute]) -> str:
    """The name of the function of a product."""
    to = element(sums.element_type).name
    return f"mma_{shape.shape.data}_{to}_{shape.factors.data}"


def host_factors(shape: MmaAttr) -> str:
    """Names for the types by which the host reads elements of A and of B."""
    a, b = map(_host_factor, shape.names, map(element, shape.elements))
    return f"using A = {a};\nusing B = {b};\n"


def _host_factor(name: str, row: Element) -> str:
    if name == TF32:
        return "dlc::tf32"
    if name == "u8":
        return "unsigned char"
    return f"dlc::widened<{row.c}, {row.to_float}>" if row.bytes == 1 and row.to_float else row.c


def sum_types(sums: Element) -> tuple[str, str, str]:
    """Of sums in registers: their type in PTX, the letter of an operand of `asm`, and its type."""
    match sums.name:
        case "f32":
            return "f32", "f", "float"
        case "i32":
            return "s32", "r", "int"
        case name:  # in pairs
            return name, "r", "unsigned"


def needs_of(shape: MmaAttr, *others: str) -> tuple[str, ...]:
    """What the functions of a product mention of the prelude, by the types of its factors."""
    rows = [*dict.fromkeys(map(element, shape.elements))]
    if not rows[0].header:
        return others if rows[0].c != "float" else ()
    headers = dict.fromkeys(row.header for row in rows)
    return (*headers, *(row.to_float for row in rows if row.bytes == 1), *others)


def _mma(shape: MmaAttr, sums: VectorType[Attribute]) -> Function:
    factors, to = ".".join(shape.names), element(sums.element_type)
    a, b, c = (_c_type(type) for type in (*shape.types, sums))
    sizes = shape.sizes
    words = [_words(type) for type in (*shape.types, sums)]
    of_sums, wide, sum_type = sum_types(to)
    counts = [words[2], *words]
    firsts = [sum(counts[:n]) for n in range(4)]
    registers = ", ".join(map(_numbered, firsts, counts))
    device = (
        f"{c} d;\n"
        "const unsigned* const ra = reinterpret_cast<const unsigned*>(&a);\n"
        "const unsigned* const rb = reinterpret_cast<const unsigned*>(&b);\n"
        f"const {sum_type}* const rc = reinterpret_cast<const {sum_type}*>(&c);\n"
        f"{sum_type}* const rd = reinterpret_cast<{sum_type}*>(&d);\n"
        f'asm volatile("mma.sync.aligned.{shape.shape.data}.row.col"\n'
        f'             ".{of_sums}.{factors}.{of_sums}"\n'
        f'             " {registers};"\n'
        f"             : {operands(f'={wide}', 'rd', words[2])}\n"
        f"             : {operands('r', 'ra', words[0])},\n"
        f"               {operands('r', 'rb', words[1])},\n"
        f"               {operands(wide, 'rc', words[2])});\n"
        "return d;"
    )
    layouts = (sizes.a, sizes.b, sizes.c)
    named = "".join(
        f"const dlc::Layout at_{name} = {layout_function(fragment)};\n"
        for name, fragment in zip("abc", layouts, strict=True)
    )
    product = f"dlc::mma<A, B, {to.c}, {sizes.k}>(a, b, c, at_a, at_b, at_c)"
    host = f"{host_factors(shape)}{named}return {product};"
    return Function(
        mma_name(shape, sums),
        "C + A B of matrices that the lanes of a warp hold together (PTX ISA: mma).",
        f"{INLINE} {c} {mma_name(shape, sums)}(\n    {a} a, {b} b, {c} c)",
        device,
        host,
        needs_of(shape, "packed"),
        FEATURES[shape.feature][0],
    )


def _words(type: VectorType[Attribute]) -> int:
    """The registers of 32 bits of a vector."""
    return static_shape(type)[0] * element(type.element_type).bytes // 4


def rows_name(kind: str, matrices: int, *, transposed: bool) -> str:
    """The name of the function that loads or stores so many matrices by rows."""
    return f"{kind}_x{matrices}" + ("_trans" if transposed else "")


def _rows(kind: str, matrices: int, *, transposed: bool) -> Function:
    name = rows_name(kind, matrices, transposed=transposed)
    loads = kind == "ldmatrix"
    instruction = f"{kind}.sync.aligned.m8n8.x{matrices}{'.trans' if transposed else ''}.shared.b16"
    address = '"r"(shared_address(row))'
    constness = "" if loads else "const "
    words = (
        f"{constness}unsigned* const r = reinterpret_cast<{constness}unsigned*>(&registers);\n"
        f"static_assert(sizeof(V) == {4 * matrices});\n"
    )
    layout = layout_function(row_fragment(matrices, transposed=transposed))
    if loads:
        signature = f"V {name}(const void* row)"
        device = (
            f"V registers;\n{words}"
            f'asm volatile("{instruction}"\n'
            f'             " {_numbered(0, matrices)}, [%{matrices}];"\n'
            f"             : {operands('=r', 'r', matrices)}\n"
            f'             : {address} : "memory");\n'
            "return registers;"
        )
        host = f"const dlc::Layout at = {layout};\nreturn dlc::ldmatrix<V>(row, at);"
    else:
        signature = f"void {name}(void* row, V registers)"
        device = (
            f'{words}asm volatile("{instruction}"\n'
            f'             " [%0], {_numbered(1, matrices)};"\n'
            f"             :: {address},\n"
            f'                {operands("r", "r", matrices)} : "memory");'
        )
        host = f"const dlc::Layout at = {layout};\ndlc::stmatrix(row, registers, at);"
    what = "Loads" if loads else "Stores"
    return Function(
        name,
        f"{what} {8 * matrices} rows of 16 bytes, to which lanes point, as matrices of a warp\n"
        f"// (PTX ISA: {kind}).",
        f"template <class V>\n{INLINE} {signature}",
        device,
        host,
        ("shared_address",),
        80 if loads else 90,
    )


def _functions() -> Iterator[Function]:
    for names in SHAPES:
        shape = MmaAttr(*names)
        for sums in shape.sums:
            yield _mma(shape, sums)
    for kind in ("ldmatrix", "stmatrix"):
        for matrices in (1, 2, 4):
            for transposed in (False, True):
                yield _rows(kind, matrices, transposed=transposed)


MMA_FUNCTIONS = tuple(_functions())
