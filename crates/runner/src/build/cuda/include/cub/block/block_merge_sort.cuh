// Keys of a block in the order of any comparison, with a value each if they have any, stable: each thread sorts its own, then neighbours merge theirs
// until all have. Memory that is used again needs a barrier between.
#pragma once
#include "../../type_traits"
#include "../util_ptx.cuh"
#include "../util_type.cuh"

namespace cub {

// The same for any group of so many threads, a power of two.
template <class Key, class Value, int Threads, int Items, class Group> class tribunal_merge_sort {
    static_assert(Threads > 0 && (Threads & (Threads - 1)) == 0, "so many threads merge as are a power of two");
    static constexpr bool VALUES = !std::is_same<Value, NullType>::value;
    typedef std::conditional_t<VALUES, Value, char> Held;

  public:
    struct TempStorage {
        union {
            alignas(Key) unsigned char tribunal_keys[sizeof(Key) * Threads * Items];
            alignas(Held) unsigned char tribunal_values[sizeof(Held) * Threads * Items];
        };
    };

  private:
    TempStorage &storage;
    int linear;

    template <class T> static TRIBUNAL_MEMBER void swap(T &a, T &b) {
        T was = a;
        a = b;
        b = was;
    }
    // Of one thread's items: all pairs of neighbours, now those that begin at even places, now the others.
    template <class Values, class Compare> static TRIBUNAL_MEMBER void sort_own(Key (&keys)[Items], Values &values, Compare before) {
#pragma unroll
        for (int round = 0; round < Items; round++) {
#pragma unroll
            for (int item = round & 1; item + 1 < Items; item += 2) {
                if (before(keys[item + 1], keys[item])) {
                    swap(keys[item], keys[item + 1]);
                    if constexpr (VALUES) swap(values[item], values[item + 1]);
                }
            }
        }
    }
    template <class Values, class Compare> TRIBUNAL_MEMBER void sort(Key (&keys)[Items], Values &values, Compare before) {
        sort_own(keys, values, before);
        Key *all = reinterpret_cast<Key *>(storage.tribunal_keys);
        for (int width = 1; width < Threads; width *= 2) {
            Group::sync();
#pragma unroll
            for (int item = 0; item < Items; item++) all[linear * Items + item] = keys[item];
            Group::sync();
            // Two runs become one, of which this thread has what lies from `skipped` on.
            int first = linear / (2 * width) * 2 * width, run = width * Items, skipped = (linear - first) * Items;
            const Key *a = all + first * Items, *b = a + run;
            // How many of the skipped are of the first run.
            int least = skipped > run ? skipped - run : 0, most = skipped < run ? skipped : run;
            while (least < most) {
                int middle = (least + most) / 2;
                if (before(b[skipped - 1 - middle], a[middle])) {
                    most = middle;
                } else {
                    least = middle + 1;
                }
            }
            int in_a = least, in_b = skipped - least, places[Items];
#pragma unroll
            for (int item = 0; item < Items; item++) {
                bool second = in_a >= run || (in_b < run && before(b[in_b], a[in_a]));
                places[item] = first * Items + (second ? run + in_b++ : in_a++);
                keys[item] = all[places[item]];
            }
            if constexpr (VALUES) {
                Value *held = reinterpret_cast<Value *>(storage.tribunal_values);
                Group::sync();
#pragma unroll
                for (int item = 0; item < Items; item++) held[linear * Items + item] = values[item];
                Group::sync();
#pragma unroll
                for (int item = 0; item < Items; item++) values[item] = held[places[item]];
            }
        }
    }
    // What is not valid goes behind all that is.
    TRIBUNAL_MEMBER void fill(Key (&keys)[Items], int valid, Key other) {
#pragma unroll
        for (int item = 0; item < Items; item++) {
            if (linear * Items + item >= valid) keys[item] = other;
        }
    }

  protected:
    TRIBUNAL_MEMBER tribunal_merge_sort(TempStorage &storage, int linear) : storage(storage), linear(linear) {}

  public:
#define TRIBUNAL_SORT(name)                                                                                    \
    template <class Compare> TRIBUNAL_MEMBER void name(Key (&keys)[Items], Compare before) {                   \
        NullType none;                                                                                         \
        tribunal_merge_sort::sort(keys, none, before);                                                         \
    }                                                                                                          \
    template <class Compare> TRIBUNAL_MEMBER void name(Key (&keys)[Items], Compare before, int valid, Key other) { \
        fill(keys, valid, other);                                                                              \
        name(keys, before);                                                                                    \
    }                                                                                                          \
    template <class Compare> TRIBUNAL_MEMBER void name(Key (&keys)[Items], Value (&values)[Items], Compare before) { \
        tribunal_merge_sort::sort(keys, values, before);                                                       \
    }                                                                                                          \
    template <class Compare, bool = true>                                                                      \
    TRIBUNAL_MEMBER void name(Key (&keys)[Items], Value (&values)[Items], Compare before, int valid, Key other) { \
        fill(keys, valid, other);                                                                              \
        name(keys, values, before);                                                                            \
    }
    TRIBUNAL_SORT(Sort)
    TRIBUNAL_SORT(StableSort)
#undef TRIBUNAL_SORT
};

template <class Key, int X, int Items, class Value = NullType, int Y = 1, int Z = 1, bool = true>
class BlockMergeSort : public tribunal_merge_sort<Key, Value, X * Y * Z, Items, tribunal_block> {
    typedef tribunal_merge_sort<Key, Value, X * Y * Z, Items, tribunal_block> Sorts;

    static TRIBUNAL_MEMBER typename Sorts::TempStorage &own() {
        __shared__ typename Sorts::TempStorage storage;
        return storage;
    }

  public:
    TRIBUNAL_MEMBER explicit BlockMergeSort(typename Sorts::TempStorage &storage) : Sorts(storage, RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockMergeSort() : BlockMergeSort(own()) {}
};

}
