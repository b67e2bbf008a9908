// Vector types: plain structs, aligned as the language says, and make_*.
#pragma once

// A vector of 2 or 4 is one access where its alignment is its size (16 bytes at most).
#define TRIBUNAL_VECTORS(name, scalar, align1, align2, align4)                                                 \
    struct __attribute__((aligned(align1))) name##1 {                                                          \
        scalar x;                                                                                              \
    };                                                                                                         \
    struct __attribute__((aligned(align2))) name##2 {                                                          \
        scalar x, y;                                                                                           \
    };                                                                                                         \
    struct __attribute__((aligned(align4))) name##4 {                                                          \
        scalar x, y, z, w;                                                                                     \
    };                                                                                                         \
    TRIBUNAL_BOTH constexpr name##1 make_##name##1(scalar x) { return name##1{x}; }                            \
    TRIBUNAL_BOTH constexpr name##2 make_##name##2(scalar x, scalar y) { return name##2{x, y}; }               \
    TRIBUNAL_BOTH constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) {                   \
        return name##4{x, y, z, w};                                                                            \
    }
#define TRIBUNAL_VECTOR3(name, scalar)                                                                         \
    struct name##3 {                                                                                           \
        scalar x, y, z;                                                                                        \
    };
#define TRIBUNAL_MAKE3(name, scalar)                                                                           \
    TRIBUNAL_BOTH constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return name##3{x, y, z}; }

TRIBUNAL_VECTORS(char, signed char, 1, 2, 4)
TRIBUNAL_VECTOR3(char, signed char)
TRIBUNAL_MAKE3(char, signed char)
TRIBUNAL_VECTORS(uchar, unsigned char, 1, 2, 4)
TRIBUNAL_VECTOR3(uchar, unsigned char)
TRIBUNAL_MAKE3(uchar, unsigned char)
TRIBUNAL_VECTORS(short, short, 2, 4, 8)
TRIBUNAL_VECTOR3(short, short)
TRIBUNAL_MAKE3(short, short)
TRIBUNAL_VECTORS(ushort, unsigned short, 2, 4, 8)
TRIBUNAL_VECTOR3(ushort, unsigned short)
TRIBUNAL_MAKE3(ushort, unsigned short)
TRIBUNAL_VECTORS(int, int, 4, 8, 16)
TRIBUNAL_VECTOR3(int, int)
TRIBUNAL_MAKE3(int, int)
TRIBUNAL_VECTORS(uint, unsigned int, 4, 8, 16)
TRIBUNAL_MAKE3(uint, unsigned int)
TRIBUNAL_VECTORS(long, long, 8, 16, 16)
TRIBUNAL_VECTOR3(long, long)
TRIBUNAL_MAKE3(long, long)
TRIBUNAL_VECTORS(ulong, unsigned long, 8, 16, 16)
TRIBUNAL_VECTOR3(ulong, unsigned long)
TRIBUNAL_MAKE3(ulong, unsigned long)
TRIBUNAL_VECTORS(longlong, long long, 8, 16, 16)
TRIBUNAL_VECTOR3(longlong, long long)
TRIBUNAL_MAKE3(longlong, long long)
TRIBUNAL_VECTORS(ulonglong, unsigned long long, 8, 16, 16)
TRIBUNAL_VECTOR3(ulonglong, unsigned long long)
TRIBUNAL_MAKE3(ulonglong, unsigned long long)
TRIBUNAL_VECTORS(float, float, 4, 8, 16)
TRIBUNAL_VECTOR3(float, float)
TRIBUNAL_MAKE3(float, float)
TRIBUNAL_VECTORS(double, double, 8, 16, 16)
TRIBUNAL_VECTOR3(double, double)
TRIBUNAL_MAKE3(double, double)

#undef TRIBUNAL_VECTORS
#undef TRIBUNAL_VECTOR3
#undef TRIBUNAL_MAKE3
