"""Functions of the prelude on scalars: arithmetic that C has not, or has with a branch."""

from dlc.backend.cuda.print.prelude_function import INLINE, Function

_EXP2_BELOW = f"""\
// Within 2^-24, what is less than 2^-126 as 0 (PTX ISA: ex2.approx.ftz).
{INLINE} float exp2_below(float x) {{
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}}
{INLINE} double exp2_below(double x) {{ return exp2(x); }}"""
_EXP_BELOW = f"""\
{INLINE} float exp_below(float x) {{ return exp2_below(x * 1.44269504f); }}
{INLINE} double exp_below(double x) {{ return exp(x); }}"""
_LOGISTIC_SUMMARY = """\
1 / (1 + e^-x) without a branch: the power is at most 1, so that its sum with 1 is from 1 to 2,
// whose reciprocal within an ulp is rounded by one step (PTX ISA: rcp.approx.ftz)."""
_LOGISTIC = f"""\
{INLINE} float logistic(float x) {{
  const float power = expf(-fabsf(x));
  const float sum = power + 1.0f;
#ifdef __CUDACC__
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(sum));
  const float reciprocal = fmaf(near, fmaf(-sum, near, 1.0f), near);
#else
  const float reciprocal = 1.0f / sum;
#endif
  return (x < 0.0f ? power : 1.0f) * reciprocal;
}}
{INLINE} double logistic(double x) {{
  const double power = exp(-fabs(x));
  return (x < 0.0 ? power : 1.0) / (power + 1.0);
}}"""
_EUCLID = (
    "while (b != 0) {\n  const T rest = a % b;\n  a = b;\n  b = rest;\n}\nreturn a < 0 ? -a : a;"
)

_SQUARING = """\
if (b < 0) return a == 1 || a == -1 ? (b % 2 != 0 ? a : 1) : 0;
unsigned long long square = (unsigned long long)a, result = 1;
for (; b != 0; b /= 2) {
  if (b % 2 != 0) result *= square;
  square *= square;
}
return (T)result;"""

_PHILOX = """\
unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)((unsigned long long)seed >> 32);
unsigned int c0 = (unsigned int)counter, c1 = (unsigned int)((unsigned long long)counter >> 32);
unsigned int c2 = 0, c3 = 0;
for (int round = 0; round < 10; ++round) {
  const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
  c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
  c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
  c1 = (unsigned int)p1;
  c3 = (unsigned int)p0;
  k0 += 0x9E3779B9u;
  k1 += 0xBB67AE85u;
}
return (T)((unsigned long long)c1 << 32 | c0);"""


def _nan_extremum(kind: str, relation: str) -> Function:
    by_comparing = f"return a {relation} b || a != a ? a : b;"
    return Function(
        f"{kind}_nan",
        f"The {kind}imum as torch has it: NaN if either is (PTX ISA: {kind}.NaN).",
        f"{INLINE} float {kind}_nan(float a, float b)",
        f'float result;\nasm("{kind}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));\n'
        "return result;",
        by_comparing,
        min_arch=80,
        older=by_comparing,
    )


SCALAR_FUNCTIONS = [
    _nan_extremum("max", ">"),
    _nan_extremum("min", "<"),
    Function("exp2_below", "2^x for sums of powers whose largest is 1.", _EXP2_BELOW),
    Function(
        "exp_below",
        "e^x for sums of powers whose largest is 1.",
        _EXP_BELOW,
        needs=("exp2_below",),
    ),
    Function("logistic", _LOGISTIC_SUMMARY, _LOGISTIC),
    Function(
        "floor_div",
        "The quotient of integers, rounded down.",
        f"template <class T>\n{INLINE} T floor_div(T a, T b)",
        "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
        'if (b == 0) dlc_trap("integer division by zero");\n'
        "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
    ),
    Function(
        "philox",
        "The first 64 bits of Philox 4x32-10 with the key `seed` at the place `counter`\n"
        "// (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).",
        f"template <class T>\n{INLINE} T philox(T seed, T counter)",
        _PHILOX,
    ),
    Function(
        "floor_mod",
        "The remainder that goes with floor_div: it has the sign of the divisor.",
        f"template <class T>\n{INLINE} T floor_mod(T a, T b)",
        "const T r = a % b;\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
        'if (b == 0) dlc_trap("integer division by zero");\n'
        "const T r = a % b;\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    ),
    Function(
        "gcd",
        "The greatest common divisor, by Euclid's algorithm; of 0 and 0 it is 0.",
        f"template <class T>\n{INLINE} T gcd(T a, T b)",
        _EUCLID,
        _EUCLID,
    ),
    Function(
        "ipowi",
        "An integer to the power of another, by squaring; to a negative one, rounded to 0.",
        f"template <class T>\n{INLINE} T ipowi(T a, T b)",
        _SQUARING,
        _SQUARING,
    ),
]
