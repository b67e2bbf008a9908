// Functions of float.
//
// What CUDA calls accurate is made here of correctly rounded operations alone (+, *, fma, /, sqrt). Largest errors in units in the last
// place, as measured against long double: 0.6 for sinf, cosf, powf and whatever is double inside; 1.1 for logf; 1.7 for exp10f, expm1f, log1pf, tanhf;
// 2.3 for log2f, log10f, erff, tanf. Subnormal results are kept.
// expf and exp2f are made on ex2.approx, as CUDA's are: 1.0 and 0.5 where that instruction is exact, as in the emulator; a device's may be off by
// 2^-22 of the result, which is up to 4 more.
#pragma once

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
    return a < 0.6f ? copysignf(near, x) : x != x ? x : far;
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
    return a < 1.0f ? copysignf(near, x) : x != x ? x : far;
}

TRIBUNAL_DEVICE float powf(float x, float y) {
    TRIBUNAL_POW(float, fabsf, truncf, (float)exp((double)y * log((double)a)))
}
#undef TRIBUNAL_POW

// The angle less a multiple of pi/2, which is added to `quarter`; in double, exact enough for a float up to 2^31.
TRIBUNAL_DEVICE double tribunal_quarter(float x, int *quarter) {
    if (fabsf(x) >= 0x1p31f) {
        tribunal_angle angle = tribunal_reduce(x);
        *quarter = angle.quarter & 3;
        return angle.high;
    }
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

// Those that are rarer, of double and rounded: 0.5.
#define TRIBUNAL_NARROW(name)                                                                                  \
    TRIBUNAL_DEVICE float name##f(float x) { return (float)name((double)x); }
TRIBUNAL_NARROW(sinpi)
TRIBUNAL_NARROW(cospi)
TRIBUNAL_NARROW(asin)
TRIBUNAL_NARROW(acos)
TRIBUNAL_NARROW(atan)
TRIBUNAL_NARROW(sinh)
TRIBUNAL_NARROW(cosh)
TRIBUNAL_NARROW(asinh)
TRIBUNAL_NARROW(acosh)
TRIBUNAL_NARROW(atanh)
TRIBUNAL_NARROW(erfc)
TRIBUNAL_NARROW(erfcx)
TRIBUNAL_NARROW(erfinv)
TRIBUNAL_NARROW(erfcinv)
TRIBUNAL_NARROW(normcdf)
TRIBUNAL_NARROW(normcdfinv)
TRIBUNAL_NARROW(cbrt)
TRIBUNAL_NARROW(rcbrt)
TRIBUNAL_NARROW(lgamma)
TRIBUNAL_NARROW(tgamma)
TRIBUNAL_NARROW(logb)
#undef TRIBUNAL_NARROW
#define TRIBUNAL_NARROW(name)                                                                                  \
    TRIBUNAL_DEVICE float name##f(float x, float y) { return (float)name((double)x, (double)y); }
TRIBUNAL_NARROW(atan2)
TRIBUNAL_NARROW(hypot)
TRIBUNAL_NARROW(rhypot)
// These two are exact.
TRIBUNAL_NARROW(fmod)
TRIBUNAL_NARROW(remainder)
#undef TRIBUNAL_NARROW
TRIBUNAL_DEVICE float remquof(float x, float y, int *quotient) { return (float)remquo((double)x, (double)y, quotient); }
TRIBUNAL_DEVICE float norm3df(float x, float y, float z) { return (float)norm3d(x, y, z); }
TRIBUNAL_DEVICE float rnorm3df(float x, float y, float z) { return (float)rnorm3d(x, y, z); }
TRIBUNAL_DEVICE float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
TRIBUNAL_DEVICE float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }
TRIBUNAL_DEVICE double tribunal_squares(int n, const float *p) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum = isinf(p[i]) || isinf(sum) ? __builtin_inf() : fma((double)p[i], (double)p[i], sum);
    return sum;
}
TRIBUNAL_DEVICE float normf(int n, const float *p) { return (float)sqrt(tribunal_squares(n, p)); }
TRIBUNAL_DEVICE float rnormf(int n, const float *p) { return (float)(1.0 / sqrt(tribunal_squares(n, p))); }
TRIBUNAL_DEVICE void sincospif(float x, float *sine, float *cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}

TRIBUNAL_DEVICE float ldexpf(float x, int n) {
    return (float)tribunal_scale((double)x, n < -300 ? -300 : n > 300 ? 300 : n);
}
TRIBUNAL_DEVICE float scalbnf(float x, int n) { return ldexpf(x, n); }
TRIBUNAL_DEVICE float scalblnf(float x, long n) { return ldexpf(x, (int)(n < -300 ? -300 : n > 300 ? 300 : n)); }
TRIBUNAL_DEVICE float frexpf(float x, int *exponent) { return (float)frexp((double)x, exponent); }
TRIBUNAL_DEVICE float modff(float x, float *whole) {
    *whole = truncf(x);
    return copysignf(isinf(x) ? 0.0f : x - *whole, x);
}
TRIBUNAL_DEVICE int ilogbf(float x) { return ilogb((double)x); }
TRIBUNAL_DEVICE float nextafterf(float x, float y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == 0.0f) return copysignf(1.401298464e-45f, y);
    int bits = __float_as_int(x);
    return __int_as_float((x < y) == (x > 0.0f) ? bits + 1 : bits - 1);
}
TRIBUNAL_DEVICE float nanf(const char *) { return __builtin_nanf(""); }

// What is beyond the type becomes its largest, and NaN becomes 0.
TRIBUNAL_DEVICE long long llrintf(float x) { return __float2ll_rn(x); }
TRIBUNAL_DEVICE long lrintf(float x) { return __float2ll_rn(x); }
TRIBUNAL_DEVICE long long llroundf(float x) { return __float2ll_rz(roundf(x)); }
TRIBUNAL_DEVICE long lroundf(float x) { return __float2ll_rz(roundf(x)); }
TRIBUNAL_DEVICE long long llrint(double x) { return __double2ll_rn(x); }
TRIBUNAL_DEVICE long lrint(double x) { return __double2ll_rn(x); }
TRIBUNAL_DEVICE long long llround(double x) { return __double2ll_rz(round(x)); }
TRIBUNAL_DEVICE long lround(double x) { return __double2ll_rz(round(x)); }
