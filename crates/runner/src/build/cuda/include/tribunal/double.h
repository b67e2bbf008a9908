// Elementary functions of double, made of correctly rounded operations alone.
//
// Largest errors in units in the last place, over all of the range and as measured against 113 bits: 0.5 for cbrt and ldexp; 0.8 for sin, cos, sinpi,
// cospi, acos; 1.1 for exp, exp2; 1.2 for log, pow, hypot, norm3d; 1.3 for norm4d; 1.7 for exp10, log1p, log2, log10, atan, asin, rcbrt; 2.0 for expm1,
// cosh, asinh, acosh, atanh; 2.2 for atan2, tan, rhypot; 2.5 for sinh, tanh. fmod, remainder, remquo, frexp, modf and nextafter are exact.
// Subnormal results are kept.
#pragma once

// c0 + c1 x + c2 x^2 + ...
TRIBUNAL_DEVICE double tribunal_polynomial(double, double c) { return c; }
template <class... Rest> TRIBUNAL_DEVICE double tribunal_polynomial(double x, double c, Rest... rest) {
    return fma(tribunal_polynomial(x, rest...), x, c);
}

TRIBUNAL_DEVICE double tribunal_scale(double x, int n) {
    int half = n >> 1;
    return x * __longlong_as_double((long long)(half + 1023) << 52) *
           __longlong_as_double((long long)(n - half + 1023) << 52);
}

// exp(f) - 1 for |f| <= ln 2 / 2: its series, of which the 14th term is below 2^-57.
TRIBUNAL_DEVICE double tribunal_exp_tail(double f) {
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
    return fma(q * f, f, f);
}

TRIBUNAL_DEVICE double exp(double x) {
    double clamped = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double f = fma(n, -6.93147180369123816490e-01, clamped);
    f = fma(n, -1.90821492927058770002e-10, f);
    return tribunal_scale(tribunal_exp_tail(f) + 1.0, (int)n);
}

// exp(x + low), where low is far below 1.
TRIBUNAL_DEVICE double tribunal_exp_sum(double x, double low) {
    double clamped = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double f = fma(n, -6.93147180369123816490e-01, clamped);
    f = fma(n, -1.90821492927058770002e-10, f) + (clamped == x ? low : 0.0);
    return tribunal_scale(tribunal_exp_tail(f) + 1.0, (int)n);
}

TRIBUNAL_DEVICE double exp2(double x) {
    double clamped = x < -1076.0 ? -1076.0 : x > 1025.0 ? 1025.0 : x;
    double n = rint(clamped);
    return tribunal_scale(tribunal_exp_tail((clamped - n) * 0.69314718055994531) + 1.0, (int)n);
}

TRIBUNAL_DEVICE double exp10(double x) {
    double clamped = x < -325.0 ? -325.0 : x > 309.0 ? 309.0 : x;
    double n = rint(clamped * 3.3219280948873626);
    // x - n log10(2), in parts of which the first times n is exact; then times ln 10.
    double f = fma(n, -0.30102999554947019, clamped);
    f = fma(n, -1.1451100898021838e-10, f);
    return tribunal_scale(tribunal_exp_tail(fma(f, 2.302585092994046, f * -2.1707562233822494e-16)) + 1.0, (int)n);
}

TRIBUNAL_DEVICE double expm1(double x) {
    double clamped = x < -60.0 ? -60.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double f = fma(n, -6.93147180369123816490e-01, clamped);
    f = fma(n, -1.90821492927058770002e-10, f);
    double tail = tribunal_exp_tail(f);
    if (n == 0.0) return x == 0.0 ? x : tail;
    // 2^n (1 + tail) - 1; half of it first, since 2^1024 is no double.
    double power = __longlong_as_double((long long)((int)n + 1022) << 52);
    return 2.0 * fma(power, tail, power - 0.5);
}

// x = 2^n (1 + m) for a positive x, 1 + m from sqrt(1/2) to sqrt(2).
TRIBUNAL_DEVICE double tribunal_split(double x, double *n) {
    bool small = x < 2.2250738585072014e-308;
    long long bits = __double_as_longlong(small ? x * 18014398509481984.0 : x);
    long long exponent = (bits - 0x3fe6a09e667f3bcdll) & (long long)0xfff0000000000000ull;
    *n = (double)(int)(exponent >> 52) - (small ? 54.0 : 0.0);
    return __longlong_as_double(bits - exponent) - 1.0;
}

// log(1 + m) = 2 atanh(s), s = m / (m + 2), by its series.
TRIBUNAL_DEVICE double tribunal_log_near(double x, double *n) {
    double m = tribunal_split(x, n);
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

TRIBUNAL_DEVICE double log1p(double x) {
    double sum = 1.0 + x;
    // What rounding took from the sum is small, and its logarithm linear.
    double lost = x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x);
    double result = sum == 1.0 ? x : log(sum) + lost / sum;
    return x > -1.0 && x < __builtin_inf() ? result : tribunal_log_edge(sum, result);
}

// log(x) of a positive finite x as a sum of two, good to 2^-64 of it. Products whose rounding is made up for are kept from being fused.
TRIBUNAL_DEVICE double tribunal_log_sum(double x, double *low) {
    double n, m = tribunal_split(x, &n);
    double d = m + 2.0, d_low = m - (d - 2.0);
    double s = m / d, s_low = (fma(-s, d, m) - s * d_low) / d;
    double z = __dmul_rn(s, s), z_low = fma(s, s, -z) + 2.0 * s * s_low;
    double q = z * tribunal_polynomial(z, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0,
                                       2.0 / 19.0, 2.0 / 21.0, 2.0 / 23.0);
    double p = __dadd_rn(2.0 / 3.0, q), p_low = 2.0 / 3.0 - p + q + 3.700743415417188e-17;
    double t = __dmul_rn(z, p), t_low = fma(z, p, -t) + z * p_low + z_low * p;
    double a = __dmul_rn(s, t), a_low = fma(s, t, -a) + s * t_low + s_low * t;
    double whole = n * 6.93147180369123816490e-01;
    double h = whole + 2.0 * s, sum = h + a;
    *low = whole - h + 2.0 * s + (h - sum + a) + (fma(n, 1.90821492927058770002e-10, 2.0 * s_low) + a_low);
    return sum;
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

// a^y of an a that is not negative.
TRIBUNAL_DEVICE double tribunal_pow(double a, double y) {
    double low, l = tribunal_log_sum(a, &low);
    if (!(a > 0.0 && a < __builtin_inf())) {
        l = tribunal_log_edge(a, l);
        low = 0.0;
    }
    double product = __dmul_rn(y, l);
    return tribunal_exp_sum(product, fma(y, l, -product) + y * low);
}
TRIBUNAL_DEVICE double pow(double x, double y) { TRIBUNAL_POW(double, fabs, trunc, tribunal_pow(a, y)) }

// An angle less a multiple of pi/2, as a sum of two, and the last bits of that multiple.
struct tribunal_angle {
    double high, low;
    int quarter;
};

// 2/pi, after a word of nothing.
static __constant__ const unsigned long long tribunal_two_over_pi[20] = {
    0, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull};

// Of an angle of 2^31 or more: its mantissa times those 192 bits of 2/pi that make quarters and what is below them.
TRIBUNAL_APART tribunal_angle tribunal_reduce_far(double x) {
    long long bits = __double_as_longlong(x);
    unsigned long long m = (bits & 0xfffffffffffffll) | 0x10000000000000ll;
    int first = (int)(bits >> 52 & 2047) - 1075 + 62, shift = first & 63;
    const unsigned long long *word = tribunal_two_over_pi + (first >> 6);
    unsigned long long w[3];
    for (int i = 0; i < 3; i++) w[i] = shift ? word[i] << shift | word[i + 1] >> (64 - shift) : word[i];
    unsigned long long below = __umul64hi(m, w[2]), middle = m * w[1] + below;
    unsigned long long top = m * w[0] + __umul64hi(m, w[1]) + (middle < below);
    int quarter = (int)(top >> 62);
    top = top << 2 | middle >> 62;
    middle <<= 2;
    // The nearest quarter: what is left is from -1/2 to 1/2.
    quarter += (int)(top >> 63);
    double main = (double)(long long)(top & ~0x7ffull), rest = (double)(top & 0x7ff) + (double)middle * 0x1p-64;
    double high = (main + rest) * 0x1p-64, low = (main - (main + rest) + rest) * 0x1p-64;
    double r = __dmul_rn(high, 1.5707963267948966);
    low = fma(high, 1.5707963267948966, -r) + fma(high, 6.123233995736766e-17, low * 1.5707963267948966);
    if (bits < 0) return {-r, -low, -quarter};
    return {r, low, quarter};
}

TRIBUNAL_DEVICE tribunal_angle tribunal_reduce(double x) {
    if (fabs(x) >= 0x1p31) return x - x == 0.0 ? tribunal_reduce_far(x) : tribunal_angle{x - x, 0.0, 0};
    double n = rint(x * 0.63661977236758134);
    // This is exact.
    double t = fma(n, -1.5707963267948966, x);
    double p = __dmul_rn(n, 6.123233995736766e-17);
    double r = t - p, b = r - t;
    double low = t - (r - b) - (p + b);
    return {r, low - fma(n, 6.123233995736766e-17, -p) - n * -1.4973849048591698e-33, (int)n};
}

TRIBUNAL_DEVICE double tribunal_sine(tribunal_angle angle) {
    double r = angle.high, z = r * r, value;
    if (angle.quarter & 1) {
        double c = tribunal_polynomial(z, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3628800.0, 1.0 / 479001600.0,
                                       -1.0 / 87178291200.0, 1.0 / 20922789888000.0);
        double half = 0.5 * z, w = 1.0 - half;
        value = w + (1.0 - w - half + (z * z * c - r * angle.low));
    } else {
        double s = tribunal_polynomial(z, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362880.0, -1.0 / 39916800.0,
                                       1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0);
        value = r + (z * r * s + angle.low * fma(z, -0.5, 1.0));
    }
    return angle.quarter & 2 ? -value : value;
}
TRIBUNAL_DEVICE double tribunal_cosine(tribunal_angle angle) {
    angle.quarter += 1;
    return tribunal_sine(angle);
}

TRIBUNAL_DEVICE double sin(double x) { return x == 0.0 ? x : tribunal_sine(tribunal_reduce(x)); }
TRIBUNAL_DEVICE double cos(double x) { return tribunal_cosine(tribunal_reduce(x)); }
TRIBUNAL_DEVICE void sincos(double x, double *sine, double *cosine) {
    tribunal_angle angle = tribunal_reduce(x);
    *sine = x == 0.0 ? x : tribunal_sine(angle);
    *cosine = tribunal_cosine(angle);
}
TRIBUNAL_DEVICE double tan(double x) {
    double sine, cosine;
    sincos(x, &sine, &cosine);
    return sine / cosine;
}

// pi x, less a multiple of pi/2.
TRIBUNAL_DEVICE tribunal_angle tribunal_reduce_pi(double x) {
    double n = rint(2.0 * x);
    n = fabs(x) < 0x1p53 ? n : 0.0;
    double f = fabs(x) < 0x1p53 ? fma(n, -0.5, x) : x - x;
    double r = __dmul_rn(f, 3.141592653589793);
    return {r, fma(f, 3.141592653589793, -r) + f * 1.2246467991473532e-16, (int)fma(floor(n * 0.25), -4.0, n)};
}
TRIBUNAL_DEVICE double sinpi(double x) { return x == trunc(x) ? x * 0.0 : tribunal_sine(tribunal_reduce_pi(x)); }
TRIBUNAL_DEVICE double cospi(double x) {
    return x - trunc(x) == copysign(0.5, x) ? 0.0 : tribunal_cosine(tribunal_reduce_pi(x));
}
TRIBUNAL_DEVICE void sincospi(double x, double *sine, double *cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}

// atan(x) - x for |x| <= tan(pi/8).
TRIBUNAL_DEVICE double tribunal_atan_tail(double x) {
    double z = x * x;
    return z * x * tribunal_polynomial(
                       z, -0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705,
                       -0.09090908751076636, 0.07692296304974469, -0.06666423628069243, 0.05878914544400483,
                       -0.0523034787301517, 0.04551108126321486, -0.034558092551328114, 0.016271944751537433);
}

TRIBUNAL_DEVICE double atan(double x) {
    double a = fabs(x);
    if (a < 0.41421356237309503) return copysign(x + tribunal_atan_tail(x), x);
    bool far = a > 2.4142135623730949;
    double t = far ? -1.0 / a : (a - 1.0) / (a + 1.0);
    double base = far ? 1.5707963267948966 : 0.7853981633974483;
    double low = far ? 6.123233995736766e-17 : 3.061616997868383e-17;
    return copysign(base + (t + (tribunal_atan_tail(t) + low)), x);
}

TRIBUNAL_DEVICE double atan2(double y, double x) {
    if (x != x || y != y) return x + y;
    double a = fabs(x), b = fabs(y);
    // From 0 to pi/2; where both are infinite it is pi/4.
    double angle = b == 0.0 ? 0.0 : a == b ? 0.7853981633974483 : atan(b / a);
    if (__double_as_longlong(x) < 0) angle = 3.141592653589793 - (angle - 1.2246467991473532e-16);
    return copysign(angle, y);
}

// asin(x) - x for |x| <= 1/2, with z = x^2.
TRIBUNAL_DEVICE double tribunal_asin_tail(double x, double z) {
    return z * x * tribunal_polynomial(
                       z, 0.16666666666666669, 0.07499999999998425, 0.04464285714637338, 0.030381944137085216,
                       0.0223721730020056, 0.0173523912659092, 0.013971235301124917, 0.011478952690254089,
                       0.010324318288763578, 0.005450878187643824, 0.017419357965078285, -0.0148814093931001,
                       0.02877844261277394);
}
// 2 asin(sqrt(z)) as a sum of two, the angle whose cosine is 1 - 2 z; z from 0 to 1/4.
TRIBUNAL_DEVICE double tribunal_arc(double z, double *low) {
    double root = sqrt(z), lost = root == 0.0 ? 0.0 : fma(-root, root, z) / (2.0 * root);
    *low = 2.0 * (lost + tribunal_asin_tail(root, z));
    return 2.0 * root;
}
TRIBUNAL_DEVICE double asin(double x) {
    double a = fabs(x);
    if (a <= 0.5) return copysign(x + tribunal_asin_tail(x, x * x), x);
    double low, arc = tribunal_arc(0.5 - 0.5 * a, &low);
    return copysign(1.5707963267948966 - arc + (6.123233995736766e-17 - low), x);
}
TRIBUNAL_DEVICE double acos(double x) {
    double a = fabs(x), low;
    if (a <= 0.5) return 1.5707963267948966 - (x + (tribunal_asin_tail(x, x * x) - 6.123233995736766e-17));
    double arc = tribunal_arc(0.5 - 0.5 * a, &low);
    return x > 0.0 ? arc + low : 3.141592653589793 - (arc + (low - 1.2246467991473532e-16));
}

TRIBUNAL_DEVICE double sinh(double x) {
    double a = fabs(x);
    // exp(x / 2) twice where exp(x) is no double.
    double half = exp(0.5 * a), t = expm1(a);
    return copysign(a > 709.0 ? 0.5 * half * half : 0.5 * (t + t / (t + 1.0)), x);
}
TRIBUNAL_DEVICE double cosh(double x) {
    double a = fabs(x), half = exp(0.5 * a), e = exp(a);
    return a > 709.0 ? 0.5 * half * half : fma(0.5, e, 0.5 / e);
}
TRIBUNAL_DEVICE double tanh(double x) {
    double t = expm1(2.0 * fmin(fabs(x), 20.0));
    return x != x ? x : copysign(fabs(x) < 0.5 ? t / (t + 2.0) : 1.0 - 2.0 / (t + 2.0), x);
}
TRIBUNAL_DEVICE double asinh(double x) {
    double a = fabs(x), z = a * a;
    double result = a < 0x1p28 ? log1p(a + z / (1.0 + sqrt(1.0 + z))) : log(a) + 0.6931471805599453;
    return copysign(result, x);
}
TRIBUNAL_DEVICE double acosh(double x) {
    double t = x - 1.0;
    if (x < 1.0) return __builtin_nan("");
    return x < 0x1p28 ? log1p(t + sqrt(fma(t, t, 2.0 * t))) : log(x) + 0.6931471805599453;
}
TRIBUNAL_DEVICE double atanh(double x) {
    double a = fabs(x);
    return copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x);
}

// The exponent of a finite x that is not 0, as if doubles had no least one.
TRIBUNAL_DEVICE int tribunal_exponent(double x) {
    bool small = fabs(x) < 2.2250738585072014e-308;
    return (int)(__double_as_longlong(small ? x * 0x1p54 : x) >> 52 & 2047) - (small ? 1077 : 1023);
}
TRIBUNAL_DEVICE int ilogb(double x) {
    return x == 0.0 || x != x ? -2147483647 - 1 : isinf(x) ? 2147483647 : tribunal_exponent(x);
}
TRIBUNAL_DEVICE double logb(double x) {
    return x == 0.0 ? -__builtin_inf() : isfinite(x) ? (double)tribunal_exponent(x) : x * x;
}
TRIBUNAL_DEVICE double ldexp(double x, int n) {
    if (x == 0.0 || !isfinite(x)) return x + x;
    int exponent = tribunal_exponent(x);
    n = n < -5000 ? -5000 : n > 5000 ? 5000 : n;
    // With the exponent 0 first; what is too small for a double is rounded once, at the end.
    double one = tribunal_scale(x, -exponent);
    n += exponent;
    if (n > 1023) return x * __builtin_inf();
    return n > -1022 ? tribunal_scale(one, n) : tribunal_scale(one, n < -1100 ? -100 : n + 1000) * 0x1p-1000;
}
TRIBUNAL_DEVICE double scalbn(double x, int n) { return ldexp(x, n); }
TRIBUNAL_DEVICE double scalbln(double x, long n) {
    return ldexp(x, (int)(n < -5000 ? -5000 : n > 5000 ? 5000 : n));
}
TRIBUNAL_DEVICE double frexp(double x, int *exponent) {
    bool has = x != 0.0 && isfinite(x);
    *exponent = has ? tribunal_exponent(x) + 1 : 0;
    return has ? tribunal_scale(x, -*exponent) : x + x;
}
TRIBUNAL_DEVICE double modf(double x, double *whole) {
    *whole = trunc(x);
    return copysign(isinf(x) ? 0.0 : x - *whole, x);
}
TRIBUNAL_DEVICE double nextafter(double x, double y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    long long bits = __double_as_longlong(x);
    if (x == 0.0) return copysign(4.9406564584124654e-324, y);
    return __longlong_as_double((x < y) == (x > 0.0) ? bits + 1 : bits - 1);
}
TRIBUNAL_DEVICE double fdim(double x, double y) { return x <= y ? 0.0 : x - y; }
TRIBUNAL_DEVICE double nan(const char *) { return __builtin_nan(""); }

// The remainder of a long division, exact, and the quotient's last bits.
struct tribunal_division {
    double rest;
    unsigned int quotient;
};
TRIBUNAL_APART tribunal_division tribunal_divide(double a, double b) {
    unsigned int quotient = 0;
    while (a >= b) {
        int shift = tribunal_exponent(a) - tribunal_exponent(b) - 50;
        double part = shift > 0 ? ldexp(b, shift + 3) : b;
        double q = trunc(a / part), rest = fma(-q, part, a);
        // The quotient was rounded, and can be one too many.
        if (rest < 0.0) {
            rest += part;
            q -= 1.0;
        }
        if (shift <= 0) quotient += (unsigned int)(long long)q;
        a = rest;
    }
    return {a, quotient};
}
TRIBUNAL_DEVICE double fmod(double x, double y) {
    if (x != x || y != y || isinf(x) || y == 0.0) return __builtin_nan("");
    return isinf(y) ? x : copysign(tribunal_divide(fabs(x), fabs(y)).rest, x);
}
TRIBUNAL_DEVICE double remquo(double x, double y, int *quotient) {
    *quotient = 0;
    if (x != x || y != y || isinf(x) || y == 0.0) return __builtin_nan("");
    if (isinf(y)) return x;
    double b = fabs(y);
    tribunal_division d = tribunal_divide(fabs(x), b);
    double other = b - d.rest;
    if (d.rest > other || (d.rest == other && d.quotient & 1)) {
        d.rest = -other;
        d.quotient++;
    }
    int last = (int)(d.quotient & 7);
    *quotient = (x < 0.0) == (y < 0.0) ? last : -last;
    return x < 0.0 || (x == 0.0 && signbit(x)) ? -d.rest : d.rest;
}
TRIBUNAL_DEVICE double remainder(double x, double y) {
    int quotient;
    return remquo(x, y, &quotient);
}

TRIBUNAL_DEVICE double cbrt(double x) {
    if (x == 0.0 || !isfinite(x)) return x + x;
    bool small = fabs(x) < 0x1p-900, large = fabs(x) > 0x1p900;
    double a = fabs(x) * (small ? 0x1p150 : large ? 0x1p-150 : 1.0);
    // A third of the exponent, off by 5 percent at most; each step cubes what is off.
    double y = __longlong_as_double(__double_as_longlong(a) / 3 + 0x2a9f7893782da1cell);
    for (int i = 0; i < 3; i++) {
        double cube = y * y * y;
        y *= (cube + 2.0 * a) / (2.0 * cube + a);
    }
    double square = __dmul_rn(y, y), cube = __dmul_rn(square, y);
    double low = fma(square, y, -cube) + fma(y, y, -square) * y;
    y -= (cube - a + low) / (3.0 * square);
    return copysign(y * (small ? 0x1p-50 : large ? 0x1p50 : 1.0), x);
}
TRIBUNAL_DEVICE double rcbrt(double x) { return 1.0 / cbrt(x); }

// The root of the sum of n squares, or 1 over it; none of the squares is too large or too small for a double.
TRIBUNAL_DEVICE double tribunal_norm(int n, const double *p, bool inverse) {
    double most = 0.0, sum = 0.0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(p[i]));
    if (isinf(most)) return inverse ? 0.0 : most;
    int exponent = most == 0.0 ? 0 : tribunal_exponent(most);
    for (int i = 0; i < n; i++) {
        double scaled = tribunal_scale(p[i], -exponent);
        sum = fma(scaled, scaled, sum);
    }
    return inverse ? ldexp(1.0 / sqrt(sum), -exponent) : ldexp(sqrt(sum), exponent);
}
TRIBUNAL_DEVICE double norm(int n, const double *p) { return tribunal_norm(n, p, false); }
TRIBUNAL_DEVICE double rnorm(int n, const double *p) { return tribunal_norm(n, p, true); }
#define TRIBUNAL_NORM(name, n, parameters, ...)                                                                \
    TRIBUNAL_DEVICE double name parameters {                                                                   \
        double p[] = {__VA_ARGS__};                                                                            \
        return norm(n, p);                                                                                     \
    }                                                                                                          \
    TRIBUNAL_DEVICE double r##name parameters {                                                                \
        double p[] = {__VA_ARGS__};                                                                            \
        return rnorm(n, p);                                                                                    \
    }
TRIBUNAL_NORM(hypot, 2, (double x, double y), x, y)
TRIBUNAL_NORM(norm3d, 3, (double x, double y, double z), x, y, z)
TRIBUNAL_NORM(norm4d, 4, (double x, double y, double z, double w), x, y, z, w)
#undef TRIBUNAL_NORM
