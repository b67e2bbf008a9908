// C++'s overloads: of float what ends in f, of integers and of mixtures what double is.
#pragma once

// double, where T is an integer.
template <class T, bool = __is_integral(T)> struct tribunal_widened {};
template <class T> struct tribunal_widened<T, true> {
    typedef double type;
};
// double, where A and B are arithmetic and differ, or are integers.
template <class A, class B, bool = __is_arithmetic(A) && __is_arithmetic(B) && (!__is_same(A, B) || __is_integral(A))>
struct tribunal_mixed {};
template <class A, class B> struct tribunal_mixed<A, B, true> {
    typedef double type;
};

#define TRIBUNAL_INTEGERS(name)                                                                                \
    template <class T> TRIBUNAL_DEVICE typename tribunal_widened<T>::type name(T x) { return name((double)x); }
#define TRIBUNAL_OVERLOAD(name)                                                                                \
    TRIBUNAL_DEVICE float name(float x) { return name##f(x); }                                                 \
    TRIBUNAL_INTEGERS(name)
TRIBUNAL_INTEGERS(sqrt)
TRIBUNAL_INTEGERS(rsqrt)
TRIBUNAL_INTEGERS(fabs)
TRIBUNAL_INTEGERS(floor)
TRIBUNAL_INTEGERS(ceil)
TRIBUNAL_INTEGERS(trunc)
TRIBUNAL_INTEGERS(rint)
TRIBUNAL_INTEGERS(nearbyint)
TRIBUNAL_INTEGERS(round)
TRIBUNAL_OVERLOAD(exp)
TRIBUNAL_OVERLOAD(exp2)
TRIBUNAL_OVERLOAD(exp10)
TRIBUNAL_OVERLOAD(expm1)
TRIBUNAL_OVERLOAD(log)
TRIBUNAL_OVERLOAD(log2)
TRIBUNAL_OVERLOAD(log10)
TRIBUNAL_OVERLOAD(log1p)
TRIBUNAL_OVERLOAD(sin)
TRIBUNAL_OVERLOAD(cos)
TRIBUNAL_OVERLOAD(tan)
TRIBUNAL_OVERLOAD(sinpi)
TRIBUNAL_OVERLOAD(cospi)
TRIBUNAL_OVERLOAD(asin)
TRIBUNAL_OVERLOAD(acos)
TRIBUNAL_OVERLOAD(atan)
TRIBUNAL_OVERLOAD(sinh)
TRIBUNAL_OVERLOAD(cosh)
TRIBUNAL_OVERLOAD(tanh)
TRIBUNAL_OVERLOAD(asinh)
TRIBUNAL_OVERLOAD(acosh)
TRIBUNAL_OVERLOAD(atanh)
TRIBUNAL_OVERLOAD(erf)
TRIBUNAL_OVERLOAD(erfc)
TRIBUNAL_OVERLOAD(erfcx)
TRIBUNAL_OVERLOAD(erfinv)
TRIBUNAL_OVERLOAD(erfcinv)
TRIBUNAL_OVERLOAD(normcdf)
TRIBUNAL_OVERLOAD(normcdfinv)
TRIBUNAL_OVERLOAD(cbrt)
TRIBUNAL_OVERLOAD(rcbrt)
TRIBUNAL_OVERLOAD(lgamma)
TRIBUNAL_OVERLOAD(tgamma)
TRIBUNAL_OVERLOAD(logb)
#undef TRIBUNAL_OVERLOAD
#undef TRIBUNAL_INTEGERS

#define TRIBUNAL_MIXED(name)                                                                                   \
    template <class A, class B> TRIBUNAL_DEVICE typename tribunal_mixed<A, B>::type name(A x, B y) {           \
        return name((double)x, (double)y);                                                                     \
    }
#define TRIBUNAL_OVERLOAD(name)                                                                                \
    TRIBUNAL_DEVICE float name(float x, float y) { return name##f(x, y); }                                     \
    TRIBUNAL_MIXED(name)
TRIBUNAL_MIXED(fmin)
TRIBUNAL_MIXED(fmax)
TRIBUNAL_MIXED(copysign)
TRIBUNAL_OVERLOAD(pow)
TRIBUNAL_OVERLOAD(atan2)
TRIBUNAL_OVERLOAD(hypot)
TRIBUNAL_OVERLOAD(rhypot)
TRIBUNAL_OVERLOAD(fmod)
TRIBUNAL_OVERLOAD(remainder)
TRIBUNAL_OVERLOAD(fdim)
TRIBUNAL_OVERLOAD(nextafter)
#undef TRIBUNAL_OVERLOAD
#undef TRIBUNAL_MIXED
TRIBUNAL_DEVICE float pow(float x, int y) { return powf(x, (float)y); }
TRIBUNAL_DEVICE double pow(double x, int y) { return pow(x, (double)y); }

TRIBUNAL_DEVICE float ldexp(float x, int n) { return ldexpf(x, n); }
TRIBUNAL_DEVICE float scalbn(float x, int n) { return scalbnf(x, n); }
TRIBUNAL_DEVICE float scalbln(float x, long n) { return scalblnf(x, n); }
TRIBUNAL_DEVICE float frexp(float x, int *exponent) { return frexpf(x, exponent); }
TRIBUNAL_DEVICE float modf(float x, float *whole) { return modff(x, whole); }
TRIBUNAL_DEVICE float remquo(float x, float y, int *quotient) { return remquof(x, y, quotient); }
TRIBUNAL_DEVICE int ilogb(float x) { return ilogbf(x); }
TRIBUNAL_DEVICE long lrint(float x) { return lrintf(x); }
TRIBUNAL_DEVICE long lround(float x) { return lroundf(x); }
TRIBUNAL_DEVICE long long llrint(float x) { return llrintf(x); }
TRIBUNAL_DEVICE long long llround(float x) { return llroundf(x); }
TRIBUNAL_DEVICE void sincos(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
