// Mathematics that is the same for float and double: constants, order, what instructions compute, roundings of one's own.
//
// The fast instructions' bits depend on the device: __expf, __logf, __sinf, __cosf, __tanhf, __fdividef, rsqrtf and their kin.
#pragma once

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define HUGE_VAL __builtin_inf()
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.434294481903251827651
#define M_LN2 0.693147180559945309417
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.785398163397448309616
#define M_1_PI 0.318309886183790671538
#define M_2_PI 0.636619772367581343076
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.707106781186547524401

#define TRIBUNAL_BUILTIN1(name)                                                                                \
    TRIBUNAL_DEVICE double name(double x) { return __builtin_##name(x); }                                      \
    TRIBUNAL_DEVICE float name##f(float x) { return __builtin_##name##f(x); }                                  \
    TRIBUNAL_DEVICE float name(float x) { return __builtin_##name##f(x); }
#define TRIBUNAL_BUILTIN2(name)                                                                                \
    TRIBUNAL_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }                         \
    TRIBUNAL_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }                      \
    TRIBUNAL_DEVICE float name(float x, float y) { return __builtin_##name##f(x, y); }
TRIBUNAL_BUILTIN1(fabs)
TRIBUNAL_BUILTIN1(floor)
TRIBUNAL_BUILTIN1(ceil)
TRIBUNAL_BUILTIN1(trunc)
TRIBUNAL_BUILTIN1(rint)
TRIBUNAL_BUILTIN1(nearbyint)
TRIBUNAL_BUILTIN1(round)
TRIBUNAL_BUILTIN2(fmin)
TRIBUNAL_BUILTIN2(fmax)
TRIBUNAL_BUILTIN2(copysign)
#undef TRIBUNAL_BUILTIN1
#undef TRIBUNAL_BUILTIN2

TRIBUNAL_DEVICE float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
TRIBUNAL_DEVICE float fma(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
TRIBUNAL_DEVICE double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
TRIBUNAL_DEVICE float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
TRIBUNAL_DEVICE float sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
TRIBUNAL_DEVICE double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
TRIBUNAL_DEVICE float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
TRIBUNAL_DEVICE float rsqrt(float x) { return __nvvm_rsqrt_approx_f(x); }
TRIBUNAL_DEVICE double rsqrt(double x) { return 1.0 / __nvvm_sqrt_rn_d(x); }
TRIBUNAL_DEVICE float fdimf(float x, float y) { return x <= y ? 0.0f : x - y; }
TRIBUNAL_DEVICE float fdividef(float x, float y) { return x / y; }
TRIBUNAL_DEVICE int abs(int x) { return x < 0 ? -x : x; }
TRIBUNAL_DEVICE long abs(long x) { return x < 0 ? -x : x; }
TRIBUNAL_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
TRIBUNAL_DEVICE float abs(float x) { return __builtin_fabsf(x); }
TRIBUNAL_DEVICE double abs(double x) { return __builtin_fabs(x); }
TRIBUNAL_DEVICE long labs(long x) { return x < 0 ? -x : x; }
TRIBUNAL_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }

#define TRIBUNAL_ORDER(type)                                                                                   \
    TRIBUNAL_BOTH constexpr type min(type x, type y) { return x < y ? x : y; }                                 \
    TRIBUNAL_BOTH constexpr type max(type x, type y) { return x < y ? y : x; }
TRIBUNAL_ORDER(int)
TRIBUNAL_ORDER(unsigned int)
TRIBUNAL_ORDER(long)
TRIBUNAL_ORDER(unsigned long)
TRIBUNAL_ORDER(long long)
TRIBUNAL_ORDER(unsigned long long)
#undef TRIBUNAL_ORDER
// Of one sign and the other: as C++ converts them.
#define TRIBUNAL_ORDER(type)                                                                                   \
    TRIBUNAL_BOTH constexpr unsigned type min(type x, unsigned type y) { return min((unsigned type)x, y); }    \
    TRIBUNAL_BOTH constexpr unsigned type min(unsigned type x, type y) { return min(x, (unsigned type)y); }    \
    TRIBUNAL_BOTH constexpr unsigned type max(type x, unsigned type y) { return max((unsigned type)x, y); }    \
    TRIBUNAL_BOTH constexpr unsigned type max(unsigned type x, type y) { return max(x, (unsigned type)y); }
TRIBUNAL_ORDER(int)
TRIBUNAL_ORDER(long)
TRIBUNAL_ORDER(long long)
#undef TRIBUNAL_ORDER
TRIBUNAL_DEVICE unsigned int umin(unsigned int x, unsigned int y) { return min(x, y); }
TRIBUNAL_DEVICE unsigned int umax(unsigned int x, unsigned int y) { return max(x, y); }
TRIBUNAL_DEVICE long long llmin(long long x, long long y) { return min(x, y); }
TRIBUNAL_DEVICE long long llmax(long long x, long long y) { return max(x, y); }
TRIBUNAL_DEVICE unsigned long long ullmin(unsigned long long x, unsigned long long y) { return min(x, y); }
TRIBUNAL_DEVICE unsigned long long ullmax(unsigned long long x, unsigned long long y) { return max(x, y); }
// Those of floats ignore a NaN where the other operand is none.
TRIBUNAL_DEVICE float min(float x, float y) { return fminf(x, y); }
TRIBUNAL_DEVICE float max(float x, float y) { return fmaxf(x, y); }
TRIBUNAL_DEVICE double min(double x, double y) { return fmin(x, y); }
TRIBUNAL_DEVICE double max(double x, double y) { return fmax(x, y); }
TRIBUNAL_DEVICE double min(float x, double y) { return min((double)x, y); }
TRIBUNAL_DEVICE double min(double x, float y) { return min(x, (double)y); }
TRIBUNAL_DEVICE double max(float x, double y) { return max((double)x, y); }
TRIBUNAL_DEVICE double max(double x, float y) { return max(x, (double)y); }

TRIBUNAL_DEVICE bool isnan(float x) { return x != x; }
TRIBUNAL_DEVICE bool isnan(double x) { return x != x; }
TRIBUNAL_DEVICE bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
TRIBUNAL_DEVICE bool isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }
TRIBUNAL_DEVICE bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }
TRIBUNAL_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }
TRIBUNAL_DEVICE bool signbit(float x) { return __float_as_int(x) < 0; }
TRIBUNAL_DEVICE bool signbit(double x) { return __double_as_longlong(x) < 0; }
TRIBUNAL_DEVICE int __isnanf(float x) { return isnan(x); }
TRIBUNAL_DEVICE int __isinff(float x) { return isinf(x); }
TRIBUNAL_DEVICE int __finitef(float x) { return isfinite(x); }
TRIBUNAL_DEVICE int __signbitf(float x) { return signbit(x); }
TRIBUNAL_DEVICE int __isnan(double x) { return isnan(x); }
TRIBUNAL_DEVICE int __isinf(double x) { return isinf(x); }
TRIBUNAL_DEVICE int __finite(double x) { return isfinite(x); }
TRIBUNAL_DEVICE int __signbitd(double x) { return signbit(x); }

// Operations with a rounding of their own; they are never fused.
#define TRIBUNAL_ROUNDED(rounding, ptx)                                                                        \
    TRIBUNAL_ROUNDED2(__fadd_##rounding, float, "add." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED2(__fsub_##rounding, float, "sub." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED2(__fmul_##rounding, float, "mul." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED2(__fdiv_##rounding, float, "div." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED2(__dadd_##rounding, double, "add." ptx ".f64", "d")                                       \
    TRIBUNAL_ROUNDED2(__dsub_##rounding, double, "sub." ptx ".f64", "d")                                       \
    TRIBUNAL_ROUNDED2(__dmul_##rounding, double, "mul." ptx ".f64", "d")                                       \
    TRIBUNAL_ROUNDED2(__ddiv_##rounding, double, "div." ptx ".f64", "d")                                       \
    TRIBUNAL_ROUNDED1(__frcp_##rounding, float, "rcp." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED1(__fsqrt_##rounding, float, "sqrt." ptx ".f32", "f")                                      \
    TRIBUNAL_ROUNDED1(__drcp_##rounding, double, "rcp." ptx ".f64", "d")                                       \
    TRIBUNAL_ROUNDED1(__dsqrt_##rounding, double, "sqrt." ptx ".f64", "d")                                     \
    TRIBUNAL_ROUNDED3(__fmaf_##rounding, float, "fma." ptx ".f32", "f")                                        \
    TRIBUNAL_ROUNDED3(__fma_##rounding, double, "fma." ptx ".f64", "d")
#define TRIBUNAL_ROUNDED1(name, type, instruction, letter)                                                     \
    TRIBUNAL_DEVICE type name(type x) {                                                                        \
        type result;                                                                                           \
        __asm__(instruction " %0, %1;" : "=" letter(result) : letter(x));                                      \
        return result;                                                                                         \
    }
#define TRIBUNAL_ROUNDED2(name, type, instruction, letter)                                                     \
    TRIBUNAL_DEVICE type name(type x, type y) {                                                                \
        type result;                                                                                           \
        __asm__(instruction " %0, %1, %2;" : "=" letter(result) : letter(x), letter(y));                       \
        return result;                                                                                         \
    }
#define TRIBUNAL_ROUNDED3(name, type, instruction, letter)                                                     \
    TRIBUNAL_DEVICE type name(type x, type y, type z) {                                                        \
        type result;                                                                                           \
        __asm__(instruction " %0, %1, %2, %3;" : "=" letter(result) : letter(x), letter(y), letter(z));        \
        return result;                                                                                         \
    }
TRIBUNAL_ROUNDED(rn, "rn")
TRIBUNAL_ROUNDED(rz, "rz")
TRIBUNAL_ROUNDED(ru, "rp")
TRIBUNAL_ROUNDED(rd, "rm")
#undef TRIBUNAL_ROUNDED
// The same, whatever is flushed elsewhere; nothing is, here.
TRIBUNAL_ROUNDED3(__fmaf_ieee_rn, float, "fma.rn.f32", "f")
TRIBUNAL_ROUNDED3(__fmaf_ieee_rz, float, "fma.rz.f32", "f")
TRIBUNAL_ROUNDED3(__fmaf_ieee_ru, float, "fma.rp.f32", "f")
TRIBUNAL_ROUNDED3(__fmaf_ieee_rd, float, "fma.rm.f32", "f")

// The fast instructions.
TRIBUNAL_ROUNDED1(tribunal_ex2, float, "ex2.approx.ftz.f32", "f")
TRIBUNAL_ROUNDED1(tribunal_lg2, float, "lg2.approx.ftz.f32", "f")
TRIBUNAL_ROUNDED1(__frsqrt_rn, float, "rsqrt.approx.f32", "f")
TRIBUNAL_ROUNDED1(__sinf, float, "sin.approx.ftz.f32", "f")
TRIBUNAL_ROUNDED1(__cosf, float, "cos.approx.ftz.f32", "f")
TRIBUNAL_ROUNDED1(__tanhf, float, "tanh.approx.f32", "f")
TRIBUNAL_ROUNDED2(__fdividef, float, "div.approx.ftz.f32", "f")
#undef TRIBUNAL_ROUNDED1
#undef TRIBUNAL_ROUNDED2
#undef TRIBUNAL_ROUNDED3
TRIBUNAL_DEVICE float __expf(float x) { return tribunal_ex2(x * 1.44269504f); }
TRIBUNAL_DEVICE float __exp10f(float x) { return tribunal_ex2(x * 3.32192809f); }
TRIBUNAL_DEVICE float __log2f(float x) { return tribunal_lg2(x); }
TRIBUNAL_DEVICE float __logf(float x) { return tribunal_lg2(x) * 0.693147181f; }
TRIBUNAL_DEVICE float __log10f(float x) { return tribunal_lg2(x) * 0.301029996f; }
TRIBUNAL_DEVICE float __powf(float x, float y) { return tribunal_ex2(y * tribunal_lg2(x)); }
TRIBUNAL_DEVICE float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
TRIBUNAL_DEVICE void __sincosf(float x, float *sine, float *cosine) {
    *sine = __sinf(x);
    *cosine = __cosf(x);
}
TRIBUNAL_DEVICE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
