// Keys of a warp, or of each part of one, in the order of any comparison, as blocks sort theirs. Memory that is used again needs a barrier of the warp.
#pragma once
#include "../block/block_merge_sort.cuh"

namespace cub {

template <class Key, int Items, int Threads = 32, class Value = NullType>
class WarpMergeSort : public tribunal_merge_sort<Key, Value, Threads, Items, tribunal_part<Threads>> {
    typedef tribunal_merge_sort<Key, Value, Threads, Items, tribunal_part<Threads>> Sorts;

  public:
    TRIBUNAL_MEMBER explicit WarpMergeSort(typename Sorts::TempStorage &storage)
        : Sorts(storage, tribunal_part<Threads>::lane()) {}
};

}
