// Included before every source: what nvcc has without any #include, and this compiler has not.
#pragma once
#include "stdint.h"
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define INFINITY __int_as_float(0x7f800000)
#define HUGE_VALF __int_as_float(0x7f800000)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
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

namespace std {
using ::max;
using ::min;
template <class T> __host__ __device__ constexpr const T &max(const T &x, const T &y) { return x < y ? y : x; }
template <class T> __host__ __device__ constexpr const T &min(const T &x, const T &y) { return y < x ? y : x; }
template <class T> __host__ __device__ constexpr void swap(T &a, T &b) {
    T kept = static_cast<T &&>(a);
    a = static_cast<T &&>(b);
    b = static_cast<T &&>(kept);
}
}

// Of integers and of mixtures: what double is.
template <class T> struct tribunal_kind {
    static constexpr int value = 0;
};
#define TRIBUNAL_KIND(type, kind)                                                                              \
    template <> struct tribunal_kind<type> {                                                                   \
        static constexpr int value = kind;                                                                     \
    };
TRIBUNAL_KIND(bool, 1)
TRIBUNAL_KIND(char, 1)
TRIBUNAL_KIND(signed char, 1)
TRIBUNAL_KIND(unsigned char, 1)
TRIBUNAL_KIND(short, 1)
TRIBUNAL_KIND(unsigned short, 1)
TRIBUNAL_KIND(int, 1)
TRIBUNAL_KIND(unsigned int, 1)
TRIBUNAL_KIND(long, 1)
TRIBUNAL_KIND(unsigned long, 1)
TRIBUNAL_KIND(long long, 1)
TRIBUNAL_KIND(unsigned long long, 1)
TRIBUNAL_KIND(float, 2)
TRIBUNAL_KIND(double, 3)
#undef TRIBUNAL_KIND
template <bool> struct tribunal_double {};
template <> struct tribunal_double<true> {
    typedef double type;
};
template <class T> using tribunal_widened = typename tribunal_double<tribunal_kind<T>::value == 1>::type;
template <class A, class B>
using tribunal_mixed = typename tribunal_double<tribunal_kind<A>::value && tribunal_kind<B>::value &&
                                                (tribunal_kind<A>::value != tribunal_kind<B>::value || tribunal_kind<A>::value == 1)>::type;
#define TRIBUNAL_INTEGERS(name)                                                                                \
    template <class T> __device__ __forceinline__ tribunal_widened<T> name(T x) { return name((double)x); }
#define TRIBUNAL_MIXED(name)                                                                                   \
    template <class A, class B> __device__ __forceinline__ tribunal_mixed<A, B> name(A x, B y) {               \
        return name((double)x, (double)y);                                                                     \
    }
TRIBUNAL_INTEGERS(sqrt)
TRIBUNAL_INTEGERS(rsqrt)
TRIBUNAL_INTEGERS(fabs)
TRIBUNAL_INTEGERS(floor)
TRIBUNAL_INTEGERS(ceil)
TRIBUNAL_INTEGERS(trunc)
TRIBUNAL_INTEGERS(rint)
TRIBUNAL_INTEGERS(nearbyint)
TRIBUNAL_INTEGERS(round)
TRIBUNAL_INTEGERS(exp)
TRIBUNAL_INTEGERS(exp2)
TRIBUNAL_INTEGERS(exp10)
TRIBUNAL_INTEGERS(expm1)
TRIBUNAL_INTEGERS(log)
TRIBUNAL_INTEGERS(log2)
TRIBUNAL_INTEGERS(log10)
TRIBUNAL_INTEGERS(log1p)
TRIBUNAL_INTEGERS(sin)
TRIBUNAL_INTEGERS(cos)
TRIBUNAL_INTEGERS(tan)
TRIBUNAL_INTEGERS(asin)
TRIBUNAL_INTEGERS(acos)
TRIBUNAL_INTEGERS(atan)
TRIBUNAL_INTEGERS(sinh)
TRIBUNAL_INTEGERS(cosh)
TRIBUNAL_INTEGERS(tanh)
TRIBUNAL_INTEGERS(asinh)
TRIBUNAL_INTEGERS(acosh)
TRIBUNAL_INTEGERS(atanh)
TRIBUNAL_INTEGERS(erf)
TRIBUNAL_INTEGERS(erfc)
TRIBUNAL_INTEGERS(cbrt)
TRIBUNAL_INTEGERS(lgamma)
TRIBUNAL_INTEGERS(tgamma)
TRIBUNAL_MIXED(fmin)
TRIBUNAL_MIXED(fmax)
TRIBUNAL_MIXED(copysign)
TRIBUNAL_MIXED(pow)
TRIBUNAL_MIXED(atan2)
TRIBUNAL_MIXED(hypot)
TRIBUNAL_MIXED(fmod)
TRIBUNAL_MIXED(remainder)
TRIBUNAL_MIXED(fdim)
#undef TRIBUNAL_INTEGERS
#undef TRIBUNAL_MIXED
