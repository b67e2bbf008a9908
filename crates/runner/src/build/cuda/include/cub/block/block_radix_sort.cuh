// Keys of a block, in order, with a value each if they have any: stable, four bits at a time, from the lowest. Memory that
// is used again needs a barrier between.
#pragma once
#include "../../cuda_bf16.h"
#include "../../cuda_fp16.h"
#include "../../type_traits"
#include "../util_type.cuh"
#include "block_scan.cuh"

namespace cub {

// The bits of a key, which are ordered as keys are. Both zeros are the same.
template <class Key> TRIBUNAL_DEVICE unsigned long long tribunal_ordered(const Key &key) {
    typename Traits<Key>::UnsignedBits bits;
    __builtin_memcpy(&bits, &key, sizeof(Key));
    if (!std::is_integral<Key>::value && bits == (decltype(bits))(1ull << (8 * sizeof(Key) - 1))) bits = 0;
    return Traits<Key>::TwiddleIn(bits);
}

template <class Key, int X, int Items, class Value = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0,
          int Y = 1, int Z = 1>
class BlockRadixSort {
    static constexpr int THREADS = X * Y * Z, DIGITS = 16;
    static constexpr bool VALUES = !std::is_same<Value, NullType>::value;
    typedef BlockScan<unsigned int, X, BLOCK_SCAN_WARP_SCANS, Y, Z> Scan;

    static constexpr size_t larger(size_t a, size_t b) { return a > b ? a : b; }

  public:
    // How many of a thread's items have each digit, then keys, then values.
    struct TempStorage {
        alignas(16) unsigned char tribunal_bytes[larger(
            sizeof(unsigned short) * DIGITS * THREADS, larger(sizeof(Key), VALUES ? sizeof(Value) : 0) * THREADS * Items)];
        typename Scan::TempStorage tribunal_scan;
    };

  private:
    TempStorage &storage;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    // Puts each item where it belongs, and gives each thread what is then its own: neighbours, or what lies a block's width apart.
    template <class T> TRIBUNAL_MEMBER void exchange(T (&items)[Items], const unsigned int (&ranks)[Items], bool striped) {
        T *all = reinterpret_cast<T *>(storage.tribunal_bytes);
#pragma unroll
        for (int item = 0; item < Items; item++) all[ranks[item]] = items[item];
        __syncthreads();
#pragma unroll
        for (int item = 0; item < Items; item++) items[item] = all[striped ? linear + item * THREADS : linear * Items + item];
    }
    // The place of each item by a digit of its key.
    TRIBUNAL_MEMBER void rank(const Key (&keys)[Items], unsigned int (&ranks)[Items], int bit, int bits, bool descending) {
        unsigned short *counts = reinterpret_cast<unsigned short *>(storage.tribunal_bytes);
        unsigned int digits[Items], sum = 0, before;
#pragma unroll
        for (int digit = 0; digit < DIGITS; digit++) counts[digit * THREADS + linear] = 0;
#pragma unroll
        for (int item = 0; item < Items; item++) {
            unsigned int digit = (unsigned int)(tribunal_ordered(keys[item]) >> bit) & ((1u << bits) - 1);
            digits[item] = (descending ? DIGITS - 1 - digit : digit) * THREADS + linear;
            ranks[item] = counts[digits[item]]++;
        }
        __syncthreads();
        // How many there are of lower digits, and of the same in the threads before.
#pragma unroll
        for (int count = 0; count < DIGITS; count++) sum += counts[linear * DIGITS + count];
        Scan(storage.tribunal_scan).ExclusiveSum(sum, before);
#pragma unroll
        for (int count = 0; count < DIGITS; count++) {
            unsigned int own = counts[linear * DIGITS + count];
            counts[linear * DIGITS + count] = (unsigned short)before;
            before += own;
        }
        __syncthreads();
#pragma unroll
        for (int item = 0; item < Items; item++) ranks[item] += counts[digits[item]];
        __syncthreads();
    }
    template <class T> TRIBUNAL_MEMBER void sort(Key (&keys)[Items], T &values, int begin, int end, bool descending, bool striped) {
        for (int bit = begin; bit < end; bit += 4) {
            bool last = striped && bit + 4 >= end;
            unsigned int ranks[Items];
            if (bit > begin) __syncthreads();
            rank(keys, ranks, bit, end - bit < 4 ? end - bit : 4, descending);
            exchange(keys, ranks, last);
            if constexpr (!std::is_same<T, NullType>::value) {
                __syncthreads();
                exchange(values, ranks, last);
            }
        }
    }

  public:
    TRIBUNAL_MEMBER explicit BlockRadixSort(TempStorage &storage) : storage(storage), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockRadixSort() : BlockRadixSort(own()) {}

#define TRIBUNAL_SORT(name, descending, striped)                                                               \
    TRIBUNAL_MEMBER void name(Key (&keys)[Items], int begin = 0, int end = sizeof(Key) * 8) {                  \
        NullType none;                                                                                         \
        sort(keys, none, begin, end, descending, striped);                                                     \
    }                                                                                                          \
    TRIBUNAL_MEMBER void name(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = sizeof(Key) * 8) { \
        sort(keys, values, begin, end, descending, striped);                                                   \
    }
    TRIBUNAL_SORT(Sort, false, false)
    TRIBUNAL_SORT(SortDescending, true, false)
    TRIBUNAL_SORT(SortBlockedToStriped, false, true)
    TRIBUNAL_SORT(SortDescendingBlockedToStriped, true, true)
#undef TRIBUNAL_SORT
};

}
