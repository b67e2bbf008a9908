// Mathematics of float and double.
//
// What CUDA calls accurate is made here of correctly rounded operations alone (+, *, fma, /, sqrt). Largest errors in units in the last
// place, as measured against long double: 0.6 for sinf and cosf of angles below 2^31 and powf (in double inside); 1.1 for logf, exp, exp2; 1.7
// for exp10f, expm1f, log1pf, tanhf, log, log2, log10; 2.3 for log2f, log10f, erff, tanf; 2^10 for pow. Subnormal results are kept.
// expf and exp2f are made on ex2.approx, as CUDA's are: 1.0 and 0.5 where that instruction is exact, as in the emulator; a device's may be off by
// 2^-22 of the result, which is up to 4 more. The others are the fast instructions, whose bits depend on the device: __expf, __logf, __sinf,
// __cosf, __fdividef, rsqrtf.
// There are no double sin, cos, tanh, erf, and no gamma and Bessel functions.
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
// x - trunc(x / y) * y, rounded: of no use where x / y is beyond 2^24 (2^53).
TRIBUNAL_BUILTIN2(fmod)
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
TRIBUNAL_DEVICE unsigned int min(int x, unsigned int y) { return min((unsigned int)x, y); }
TRIBUNAL_DEVICE unsigned int min(unsigned int x, int y) { return min(x, (unsigned int)y); }
TRIBUNAL_DEVICE unsigned int max(int x, unsigned int y) { return max((unsigned int)x, y); }
TRIBUNAL_DEVICE unsigned int max(unsigned int x, int y) { return max(x, (unsigned int)y); }
// Those of floats ignore a NaN where the other operand is none.
TRIBUNAL_DEVICE float min(float x, float y) { return fminf(x, y); }
TRIBUNAL_DEVICE float max(float x, float y) { return fmaxf(x, y); }
TRIBUNAL_DEVICE double min(double x, double y) { return fmin(x, y); }
TRIBUNAL_DEVICE double max(double x, double y) { return fmax(x, y); }

TRIBUNAL_DEVICE bool isnan(float x) { return x != x; }
TRIBUNAL_DEVICE bool isnan(double x) { return x != x; }
TRIBUNAL_DEVICE bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
TRIBUNAL_DEVICE bool isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }
TRIBUNAL_DEVICE bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }
TRIBUNAL_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }
TRIBUNAL_DEVICE bool signbit(float x) { return __float_as_int(x) < 0; }
TRIBUNAL_DEVICE bool signbit(double x) { return __double_as_longlong(x) < 0; }

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

// x * 2^n in two steps, so that neither factor leaves the range; n from -252 to 254.
TRIBUNAL_DEVICE float tribunal_scale(float x, int n) {
    int half = n >> 1;
    return x * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}

// exp(f) - 1 for |f| <= ln 2 / 2 as f + f^2 q(f).
TRIBUNAL_DEVICE float tribunal_exp_tail(float f) {
    float q = fmaf(f, 0.00139517116f, 0.00836959947f);
    q = fmaf(q, f, 0.0416661873f);
    q = fmaf(q, f, 0.166665122f);
    q = fmaf(q, f, 0.5f);
    return fmaf(q * f, f, f);
}

// exp(x) of rounded operations alone, for functions in which a few of its units would be many.
TRIBUNAL_DEVICE float tribunal_exp(float x) {
    float clamped = x < -105.0f ? -105.0f : x > 89.0f ? 89.0f : x;
    float n = rintf(clamped * 1.44269504f);
    float f = fmaf(n, -0.693145752f, clamped);
    f = fmaf(n, -1.42860677e-6f, f);
    return tribunal_scale(tribunal_exp_tail(f) + 1.0f, (int)n);
}

// 2^n 2^f with n + f = x / ln 2. n is a whole number from -126 to 127, whose exponent is made by adding 1.5 * 2^23: the low bits of that sum. What
// n cannot take is left to f, so that results overflow, vanish and are subnormal as they should; a NaN goes through f.
TRIBUNAL_DEVICE float expf(float x) {
    // From 0 to 1 where n is from -126 to 127.
    float place;
    __asm__("fma.rn.sat.f32 %0, %1, 0f3BBADACC, 0f3EFEFCF7;" : "=f"(place) : "f"(x));
    float shifted = fmaf(place, 253.0f, 12582913.0f);
    float n = shifted - 12583039.0f;
    float f = fmaf(x, 1.92596299e-8f, fmaf(x, 1.44269502f, -n));
    return tribunal_ex2(f) * __int_as_float(__float_as_int(shifted) << 23);
}

TRIBUNAL_DEVICE float exp2f(float x) {
    float result;
    __asm__("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

TRIBUNAL_DEVICE float exp10f(float x) {
    float clamped = x < -46.0f ? -46.0f : x > 39.0f ? 39.0f : x;
    float n = rintf(clamped * 3.32192809f);
    // x - n log10(2), in parts of which the first times n is exact; then times ln 10.
    float f = fmaf(n, -0.301025391f, clamped);
    f = fmaf(n, -4.60503907e-6f, f);
    float scaled = f * 2.30258509f;
    return tribunal_scale(tribunal_exp_tail(fmaf(f, -3.19756006e-8f, scaled)) + 1.0f, (int)n);
}

TRIBUNAL_DEVICE float expm1f(float x) {
    float clamped = x > 89.0f ? 89.0f : x < -30.0f ? -30.0f : x;
    float n = rintf(clamped * 1.44269504f);
    float f = fmaf(n, -0.693145752f, clamped);
    f = fmaf(n, -1.42860677e-6f, f);
    float tail = tribunal_exp_tail(f);
    if (n == 0.0f) return x == 0.0f ? x : tail;
    // 2^n (1 + tail) - 1; half of it first, since 2^128 is no float.
    float power = __int_as_float(((int)n + 126) << 23);
    return 2.0f * fmaf(power, tail, power - 0.5f);
}

// log1p(m) for m from -1/3 to 1/3 as m + m^2 q(m).
TRIBUNAL_DEVICE float tribunal_log1p(float m) {
    float q = fmaf(m, -0.133111969f, 0.14006266f);
    q = fmaf(q, m, -0.120782785f);
    q = fmaf(q, m, 0.140008166f);
    q = fmaf(q, m, -0.166894943f);
    q = fmaf(q, m, 0.200107723f);
    q = fmaf(q, m, -0.249995083f);
    q = fmaf(q, m, 0.333332092f);
    q = fmaf(q, m, -0.5f);
    return fmaf(q * m, m, m);
}

// x = 2^n (1 + m) for a positive x, m from -1/3 to 1/3.
TRIBUNAL_DEVICE float tribunal_split(float x, float *n) {
    bool small = x < 1.17549435e-38f;
    int bits = __float_as_int(small ? x * 8388608.0f : x);
    int exponent = (bits - 0x3f2aaaab) & (int)0xff800000;
    *n = (float)(exponent >> 23) - (small ? 23.0f : 0.0f);
    return __int_as_float(bits - exponent) - 1.0f;
}

// What logarithms of numbers that are not positive and finite are.
TRIBUNAL_DEVICE float tribunal_log_edge(float x, float result) {
    if (x > 0.0f && x < __builtin_inff()) return result;
    if (x == 0.0f) return -__builtin_inff();
    return x < 0.0f ? __builtin_nanf("") : x + x;
}

TRIBUNAL_DEVICE float logf(float x) {
    float n, m = tribunal_split(x, &n);
    float result = fmaf(n, 0.693145752f, fmaf(n, 1.42860677e-6f, tribunal_log1p(m)));
    return tribunal_log_edge(x, result);
}

TRIBUNAL_DEVICE float log2f(float x) {
    float n, m = tribunal_split(x, &n);
    float l = tribunal_log1p(m);
    return tribunal_log_edge(x, fmaf(l, 1.44269502f, fmaf(l, 1.92596303e-8f, n)));
}

TRIBUNAL_DEVICE float log10f(float x) {
    float n, m = tribunal_split(x, &n);
    float l = tribunal_log1p(m);
    float small = fmaf(l, 0.434294492f, fmaf(l, -1.00888e-8f, n * 4.60503907e-6f));
    return tribunal_log_edge(x, fmaf(n, 0.301025391f, small));
}

TRIBUNAL_DEVICE float log1pf(float x) {
    float sum = 1.0f + x;
    // What rounding took from the sum is small, and its logarithm linear.
    float lost = x < 1.0f ? x - (sum - 1.0f) : 1.0f - (sum - x);
    float result = sum == 1.0f ? x : logf(sum) + lost / sum;
    return x > -1.0f && x < __builtin_inff() ? result : tribunal_log_edge(sum, result);
}

TRIBUNAL_DEVICE float tanhf(float x) {
    float a = fabsf(x), s = x * x;
    float q = fmaf(s, 0.00223105261f, -0.00826707855f);
    q = fmaf(q, s, 0.0217344351f);
    q = fmaf(q, s, -0.0539524741f);
    q = fmaf(q, s, 0.133332476f);
    q = fmaf(q, s, -0.333333313f);
    float near = fmaf(q * s, x, x);
    float far = copysignf(1.0f - 2.0f / (tribunal_exp(2.0f * a) + 1.0f), x);
    return a < 0.6f ? near : x != x ? x : far;
}

TRIBUNAL_DEVICE float erff(float x) {
    float a = fabsf(x), s = x * x;
    float p = fmaf(s, -9.68012682e-6f, 0.000112705413f);
    p = fmaf(p, s, -0.000848471071f);
    p = fmaf(p, s, 0.00522107491f);
    p = fmaf(p, s, -0.0268654451f);
    p = fmaf(p, s, 0.112837829f);
    p = fmaf(p, s, -0.376126379f);
    float near = fmaf(p, s * x, x * 0.128379226f) + x;
    float t = fminf(a, 4.0f);
    float q = fmaf(t, 2.16870812e-5f, -0.000441339216f);
    q = fmaf(q, t, 0.00420457637f);
    q = fmaf(q, t, -0.0252082981f);
    q = fmaf(q, t, 0.108418643f);
    q = fmaf(q, t, 0.633219838f);
    q = fmaf(q, t, 1.12957847f);
    q = fmaf(q, t, -0.000188048027f);
    float far = copysignf(1.0f - tribunal_exp(-q), x);
    return a < 1.0f ? near : x != x ? x : far;
}

TRIBUNAL_DEVICE float normcdff(float x) { return 0.5f + 0.5f * erff(x * 0.707106781f); }

TRIBUNAL_DEVICE double tribunal_scale(double x, int n) {
    int half = n >> 1;
    return x * __longlong_as_double((long long)(half + 1023) << 52) *
           __longlong_as_double((long long)(n - half + 1023) << 52);
}

// exp(f) for |f| <= ln 2 / 2: its series, of which the 14th term is below 2^-57.
TRIBUNAL_DEVICE double tribunal_exp_near(double f) {
    double q = fma(f, 1.0 / 6227020800.0, 1.0 / 479001600.0);
    q = fma(q, f, 1.0 / 39916800.0);
    q = fma(q, f, 1.0 / 3628800.0);
    q = fma(q, f, 1.0 / 362880.0);
    q = fma(q, f, 1.0 / 40320.0);
    q = fma(q, f, 1.0 / 5040.0);
    q = fma(q, f, 1.0 / 720.0);
    q = fma(q, f, 1.0 / 120.0);
    q = fma(q, f, 1.0 / 24.0);
    q = fma(q, f, 1.0 / 6.0);
    q = fma(q, f, 0.5);
    return fma(q * f, f, f) + 1.0;
}

TRIBUNAL_DEVICE double exp(double x) {
    double clamped = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double f = fma(n, -6.93147180369123816490e-01, clamped);
    f = fma(n, -1.90821492927058770002e-10, f);
    return tribunal_scale(tribunal_exp_near(f), (int)n);
}

TRIBUNAL_DEVICE double exp2(double x) {
    double clamped = x < -1076.0 ? -1076.0 : x > 1025.0 ? 1025.0 : x;
    double n = rint(clamped);
    return tribunal_scale(tribunal_exp_near((clamped - n) * 0.69314718055994531), (int)n);
}

// x = 2^n y for a positive x, y from sqrt(1/2) to sqrt(2); log(y) = 2 atanh(s), s = (y - 1) / (y + 1), by its series.
TRIBUNAL_DEVICE double tribunal_log_near(double x, double *n) {
    bool small = x < 2.2250738585072014e-308;
    long long bits = __double_as_longlong(small ? x * 18014398509481984.0 : x);
    long long exponent = (bits - 0x3fe6a09e667f3bcdll) & (long long)0xfff0000000000000ull;
    *n = (double)(int)(exponent >> 52) - (small ? 54.0 : 0.0);
    double m = __longlong_as_double(bits - exponent) - 1.0;
    double s = m / (m + 2.0), z = s * s;
    double q = fma(z, 2.0 / 23.0, 2.0 / 21.0);
    q = fma(q, z, 2.0 / 19.0);
    q = fma(q, z, 2.0 / 17.0);
    q = fma(q, z, 2.0 / 15.0);
    q = fma(q, z, 2.0 / 13.0);
    q = fma(q, z, 2.0 / 11.0);
    q = fma(q, z, 2.0 / 9.0);
    q = fma(q, z, 2.0 / 7.0);
    q = fma(q, z, 2.0 / 5.0);
    q = fma(q, z, 2.0 / 3.0);
    // 2 s = m - m s, and m is exact.
    return m - s * (m - z * q);
}

TRIBUNAL_DEVICE double tribunal_log_edge(double x, double result) {
    if (x > 0.0 && x < __builtin_inf()) return result;
    if (x == 0.0) return -__builtin_inf();
    return x < 0.0 ? __builtin_nan("") : x + x;
}

TRIBUNAL_DEVICE double log(double x) {
    double n, l = tribunal_log_near(x, &n);
    return tribunal_log_edge(x, fma(n, 6.93147180369123816490e-01, fma(n, 1.90821492927058770002e-10, l)));
}

TRIBUNAL_DEVICE double log2(double x) {
    double n, l = tribunal_log_near(x, &n);
    return tribunal_log_edge(x, fma(l, 1.4426950408889634, fma(l, 2.0355273740931033e-17, n)));
}

TRIBUNAL_DEVICE double log10(double x) {
    double n, l = tribunal_log_near(x, &n);
    return tribunal_log_edge(x, fma(n, 0.30102999566398120, fma(l, 0.43429448190325183, l * 1.0983196502167651e-17)));
}

// Signs and edges of x^y, given what it is for |x|.
#define TRIBUNAL_POW(type, absolute, truncated, body)                                                          \
    if (y == 0 || x == 1) return 1;                                                                            \
    if (x != x || y != y) return x + y;                                                                        \
    bool whole = truncated(y) == y, odd = whole && truncated(y / 2) * 2 != y;                                  \
    type a = absolute(x), result = body;                                                                       \
    if (a == 1) result = 1;                                                                                    \
    if (x < 0 && !whole && a < (type)__builtin_inf()) return (type)__builtin_nan("");                          \
    return odd && (x < 0 || (x == 0 && 1 / x < 0)) ? -result : result;

TRIBUNAL_DEVICE double pow(double x, double y) { TRIBUNAL_POW(double, fabs, trunc, exp(y * log(a))) }
TRIBUNAL_DEVICE float powf(float x, float y) {
    TRIBUNAL_POW(float, fabsf, truncf, (float)exp((double)y * log((double)a)))
}
#undef TRIBUNAL_POW

// The angle less a multiple of pi/2, which is added to `quarter`; in double, exact enough for a float up to 2^31.
TRIBUNAL_DEVICE double tribunal_quarter(float x, int *quarter) {
    double n = rint((double)x * 0.63661977236758134);
    *quarter = (int)(long long)n & 3;
    return fma(n, -6.123233995736766e-17, fma(n, -1.5707963267948966, (double)x));
}

TRIBUNAL_DEVICE float tribunal_sine(double r, int quarter) {
    double z = r * r;
    double sine = fma(z, 2.7557319223985893e-6, -1.9841269841269841e-4);
    sine = fma(fma(fma(sine, z, 8.3333333333333332e-3), z, -0.16666666666666666) * z, r, r);
    double cosine = fma(z, -2.7557319223985888e-7, 2.4801587301587302e-5);
    cosine = fma(fma(fma(fma(cosine, z, -1.3888888888888889e-3), z, 4.1666666666666664e-2), z, -0.5), z, 1.0);
    double value = quarter & 1 ? cosine : sine;
    return (float)(quarter & 2 ? -value : value);
}

TRIBUNAL_DEVICE float sinf(float x) {
    int quarter;
    double r = tribunal_quarter(x, &quarter);
    return x == 0.0f ? x : tribunal_sine(r, quarter);
}
TRIBUNAL_DEVICE float cosf(float x) {
    int quarter;
    double r = tribunal_quarter(x, &quarter);
    return tribunal_sine(r, quarter + 1);
}
TRIBUNAL_DEVICE void sincosf(float x, float *sine, float *cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
TRIBUNAL_DEVICE float tanf(float x) { return sinf(x) / cosf(x); }

TRIBUNAL_DEVICE float ldexpf(float x, int n) {
    n = n < -300 ? -300 : n > 300 ? 300 : n;
    int rest = n < -150 ? n + 150 : n > 150 ? n - 150 : 0;
    return tribunal_scale(tribunal_scale(x, rest), n - rest);
}
TRIBUNAL_DEVICE float scalbnf(float x, int n) { return ldexpf(x, n); }
TRIBUNAL_DEVICE int lrintf(float x) { return __float2int_rn(x); }
TRIBUNAL_DEVICE int lroundf(float x) { return (int)roundf(x); }

// C++'s overloads for float.
#define TRIBUNAL_OVERLOAD(name)                                                                                \
    TRIBUNAL_DEVICE float name(float x) { return name##f(x); }
TRIBUNAL_OVERLOAD(exp)
TRIBUNAL_OVERLOAD(exp2)
TRIBUNAL_OVERLOAD(expm1)
TRIBUNAL_OVERLOAD(log)
TRIBUNAL_OVERLOAD(log2)
TRIBUNAL_OVERLOAD(log10)
TRIBUNAL_OVERLOAD(log1p)
TRIBUNAL_OVERLOAD(tanh)
TRIBUNAL_OVERLOAD(erf)
TRIBUNAL_OVERLOAD(sin)
TRIBUNAL_OVERLOAD(cos)
TRIBUNAL_OVERLOAD(tan)
#undef TRIBUNAL_OVERLOAD
TRIBUNAL_DEVICE float pow(float x, float y) { return powf(x, y); }
TRIBUNAL_DEVICE float pow(float x, int y) { return powf(x, (float)y); }
TRIBUNAL_DEVICE double pow(double x, int y) { return pow(x, (double)y); }
