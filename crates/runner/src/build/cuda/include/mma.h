// nvcuda::wmma: products of matrices by a warp, out of mma.sync of 16 rows and 8 columns, and plain loads and stores.
//
// A lane has, of each row of `a` and column of `b` that is its own, K / 4 neighbouring values; number 8 i + lane / 4 is its own, and its
// values begin at lane % 4 * K / 4. Of sums it has what mma.sync gives it. A product of 8 rows and 32 columns is that of the
// matrices turned over, with `b` in the place of `a`. Of doubles there is mma.sync of 8 rows and 8 columns.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

template <class T> struct tribunal_element {
    typedef T type;
};
template <> struct tribunal_element<precision::tf32> {
    typedef float type;
};

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    static_assert(
        (M == 16 && N == 16 && K == 8) || (M == 8 && N == 8 && K == 4) ||
            (((M == 16 && N == 16) || (M == 32 && N == 8) || (M == 8 && N == 32)) && K == 16),
        "there are m16n16k16, m32n8k16, m8n32k16, m16n16k8 of tf32, and m8n8k4 of double");
    typedef typename tribunal_element<T>::type element_type;
    typedef element_type storage_element_type;
    static constexpr int num_elements = (__is_same(Use, matrix_a) ? M * K : __is_same(Use, matrix_b) ? K * N : M * N) / 32;
    element_type x[num_elements];
};

TRIBUNAL_DEVICE float __float_to_tf32(float x) {
    unsigned int bits;
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

template <class Use, int M, int N, int K, class T, class Layout>
TRIBUNAL_DEVICE void fill_fragment(
    fragment<Use, M, N, K, T, Layout> &f, const typename fragment<Use, M, N, K, T, Layout>::element_type &value) {
#pragma unroll
    for (auto &x : f.x) x = value;
}

// Of `a` or `b`. Addresses are aligned to 32 bytes and rows to 16, so what is beside one another is read at once.
template <class Use, int M, int N, int K, class T, class Layout>
TRIBUNAL_DEVICE void load_matrix_sync(
    fragment<Use, M, N, K, T, Layout> &f, const typename fragment<Use, M, N, K, T, Layout>::element_type *from, unsigned int stride) {
    constexpr int each = K / 4, size = each * sizeof(*from);
    constexpr bool beside = __is_same(Use, matrix_a) == __is_same(Layout, row_major);
    unsigned int lane = __nvvm_read_ptx_sreg_laneid(), inner = lane % 4 * each;
    __syncwarp();
#pragma unroll
    for (int part = 0; part < f.num_elements / each; part++) {
        unsigned int outer = 8 * part + lane / 4;
        if constexpr (beside) {
            __builtin_memcpy(&f.x[part * each], __builtin_assume_aligned(&from[(size_t)outer * stride + inner], size), size);
        } else {
#pragma unroll
            for (int i = 0; i < each; i++) f.x[part * each + i] = from[(size_t)(inner + i) * stride + outer];
        }
    }
}

// Where the values i and i + 1 of sums are, i even: beside one another in a row, of the matrix turned over if that is wide.
struct tribunal_place {
    size_t row, column;
};
template <int M> TRIBUNAL_DEVICE tribunal_place tribunal_place_of(int i) {
    unsigned int lane = __nvvm_read_ptx_sreg_laneid();
    size_t row = lane / 4 + i % 4 * 4, column = lane % 4 * 2;
    return M == 16 ? tribunal_place{row, column + i / 4 * 8} : tribunal_place{row + i / 4 * 16, column};
}
template <int M, int N, int K, class T>
TRIBUNAL_DEVICE void load_matrix_sync(
    fragment<accumulator, M, N, K, T> &f, const T *from, unsigned int stride, layout_t layout) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < f.num_elements; i += 2) {
        auto [row, column] = tribunal_place_of<M>(i);
        if ((M < N) == (layout == mem_col_major)) {
            __builtin_memcpy(&f.x[i], __builtin_assume_aligned(&from[row * stride + column], 2 * sizeof(T)), 2 * sizeof(T));
        } else {
            f.x[i] = from[column * stride + row];
            f.x[i + 1] = from[(column + 1) * stride + row];
        }
    }
}
template <int M, int N, int K, class T>
TRIBUNAL_DEVICE void store_matrix_sync(
    T *to, const fragment<accumulator, M, N, K, T> &f, unsigned int stride, layout_t layout) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < f.num_elements; i += 2) {
        auto [row, column] = tribunal_place_of<M>(i);
        if ((M < N) == (layout == mem_col_major)) {
            __builtin_memcpy(__builtin_assume_aligned(&to[row * stride + column], 2 * sizeof(T)), &f.x[i], 2 * sizeof(T));
        } else {
            to[column * stride + row] = f.x[i];
            to[(column + 1) * stride + row] = f.x[i + 1];
        }
    }
}

// d = a b + c of 16 rows and 8 columns; words of `a` are those of row lane / 4 and then those of the row 8 below.
#define TRIBUNAL_FLOATS(type, instruction)                                                                     \
    template <class D, class C>                                                                                \
    TRIBUNAL_DEVICE void tribunal_multiply(                                                                    \
        const type *, D *d, const C *c, const unsigned int *a, const unsigned int *b, bool) {                  \
        float s0 = c[0], s1 = c[1], s2 = c[2], s3 = c[3];                                                      \
        __asm__ volatile("mma.sync.aligned." instruction                                                       \
                         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
                         : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)                                              \
                         : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                  \
        d[0] = s0;                                                                                             \
        d[1] = s1;                                                                                             \
        d[2] = s2;                                                                                             \
        d[3] = s3;                                                                                             \
    }
TRIBUNAL_FLOATS(__half, "m16n8k16.row.col.f32.f16.f16.f32")
TRIBUNAL_FLOATS(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
TRIBUNAL_FLOATS(precision::tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef TRIBUNAL_FLOATS
TRIBUNAL_DEVICE void tribunal_multiply(
    const __half *, __half *d, const __half *c, const unsigned int *a, const unsigned int *b, bool) {
    unsigned int sums[2];
    __builtin_memcpy(sums, c, 8);
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(sums[0]), "+r"(sums[1])
                     : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    __builtin_memcpy(d, sums, 8);
}
#define TRIBUNAL_INTEGERS(saturate, types)                                                                     \
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col" saturate ".s32." types ".s32"                         \
                     " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"                                   \
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
#define TRIBUNAL_MULTIPLY(type, types)                                                                         \
    TRIBUNAL_DEVICE void tribunal_multiply(                                                                    \
        const type *, int *d, const int *c, const unsigned int *a, const unsigned int *b, bool saturate) {     \
        if (saturate) {                                                                                        \
            TRIBUNAL_INTEGERS(".satfinite", types);                                                            \
        } else {                                                                                               \
            TRIBUNAL_INTEGERS("", types);                                                                      \
        }                                                                                                      \
    }
TRIBUNAL_MULTIPLY(signed char, "s8.s8")
TRIBUNAL_MULTIPLY(unsigned char, "u8.u8")
#undef TRIBUNAL_INTEGERS
#undef TRIBUNAL_MULTIPLY

template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
TRIBUNAL_DEVICE void mma_sync(
    fragment<accumulator, M, N, K, D> &d,
    const fragment<matrix_a, M, N, K, T, LayoutA> &a,
    const fragment<matrix_b, M, N, K, T, LayoutB> &b,
    const fragment<accumulator, M, N, K, C> &c,
    bool saturate = false) {
    // The words of a lane's values of one row.
    constexpr int words = K / 4 * sizeof(a.x[0]) / 4;
    unsigned int of_a[sizeof(a.x) / 4], of_b[sizeof(b.x) / 4];
    __builtin_memcpy(of_a, a.x, sizeof(a.x));
    __builtin_memcpy(of_b, b.x, sizeof(b.x));
    const unsigned int *rows = M == 8 ? of_b : of_a, *columns = M == 8 ? of_a : of_b;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        tribunal_multiply(
            (const T *)nullptr, &d.x[4 * half], &c.x[4 * half], rows + (M == 16 ? 0 : 2 * half * words),
            columns + (M == 16 ? half * words : 0), saturate);
    }
}
template <class LayoutA, class LayoutB>
TRIBUNAL_DEVICE void mma_sync(
    fragment<accumulator, 8, 8, 4, double> &d,
    const fragment<matrix_a, 8, 8, 4, double, LayoutA> &a,
    const fragment<matrix_b, 8, 8, 4, double, LayoutB> &b,
    const fragment<accumulator, 8, 8, 4, double> &c,
    bool = false) {
    double s0 = c.x[0], s1 = c.x[1];
    __asm__ volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(s0), "+d"(s1)
                     : "d"(a.x[0]), "d"(b.x[0]));
    d.x[0] = s0;
    d.x[1] = s1;
}

}
}
