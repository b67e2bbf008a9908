// Flags of the items of a block that differ from the one before, or from the one behind. Memory that is used again needs a barrier between.
#pragma once
#include "../../type_traits"
#include "../thread/thread_operators.cuh"
#include "../util_ptx.cuh"

namespace cub {

template <class T, int X, int Y = 1, int Z = 1, int = 0> class BlockDiscontinuity {
    static constexpr int THREADS = X * Y * Z;

  public:
    // The first item of each thread, and the last.
    struct TempStorage {
        alignas(T) unsigned char tribunal_firsts[sizeof(T) * THREADS];
        alignas(T) unsigned char tribunal_lasts[sizeof(T) * THREADS];
    };

  private:
    T *firsts, *lasts;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    // Who asks is told, if it cares, which of the block's items the second is.
    template <class Operator> static TRIBUNAL_MEMBER bool differ(Operator operation, const T &a, const T &b, int place) {
        if constexpr (std::is_invocable_v<Operator, const T &, const T &, int>) {
            return operation(a, b, place);
        } else {
            return operation(a, b);
        }
    }
    // `Before` is what the first thread has before it, `Behind` what the last one has behind: an item, or nothing.
    template <int Items, class Flag, class Operator, class... Before>
    TRIBUNAL_MEMBER void heads(Flag (&flags)[Items], T (&input)[Items], T (&before)[Items], Operator operation, Before... given) {
        if constexpr (sizeof...(Before) > 0) {
            before[0] = linear == 0 ? first_of(given...) : lasts[linear - 1];
            flags[0] = differ(operation, before[0], input[0], linear * Items);
        } else if (linear == 0) {
            flags[0] = 1;
        } else {
            before[0] = lasts[linear - 1];
            flags[0] = differ(operation, before[0], input[0], linear * Items);
        }
#pragma unroll
        for (int item = 1; item < Items; item++) {
            before[item] = input[item - 1];
            flags[item] = differ(operation, before[item], input[item], linear * Items + item);
        }
    }
    template <int Items, class Flag, class Operator, class... Behind>
    TRIBUNAL_MEMBER void tails(Flag (&flags)[Items], T (&input)[Items], Operator operation, Behind... given) {
#pragma unroll
        for (int item = 0; item + 1 < Items; item++) {
            flags[item] = differ(operation, input[item], input[item + 1], linear * Items + item + 1);
        }
        if constexpr (sizeof...(Behind) > 0) {
            T behind = linear == THREADS - 1 ? first_of(given...) : firsts[linear + 1];
            flags[Items - 1] = differ(operation, input[Items - 1], behind, (linear + 1) * Items);
        } else if (linear == THREADS - 1) {
            flags[Items - 1] = 1;
        } else {
            flags[Items - 1] = differ(operation, input[Items - 1], firsts[linear + 1], (linear + 1) * Items);
        }
    }
    static TRIBUNAL_MEMBER T first_of(T item) { return item; }
    template <int Items> TRIBUNAL_MEMBER void show(T (&input)[Items], bool first, bool last) {
        if (first) firsts[linear] = input[0];
        if (last) lasts[linear] = input[Items - 1];
        __syncthreads();
    }

  public:
    TRIBUNAL_MEMBER explicit BlockDiscontinuity(TempStorage &storage)
        : firsts(reinterpret_cast<T *>(storage.tribunal_firsts)), lasts(reinterpret_cast<T *>(storage.tribunal_lasts)),
          linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockDiscontinuity() : BlockDiscontinuity(own()) {}

    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeads(Flag (&flags)[Items], T (&input)[Items], T (&before)[Items], Operator operation) {
        show(input, false, true);
        heads(flags, input, before, operation);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeads(Flag (&flags)[Items], T (&input)[Items], T (&before)[Items], Operator operation, T given) {
        show(input, false, true);
        heads(flags, input, before, operation, given);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeads(Flag (&flags)[Items], T (&input)[Items], Operator operation) {
        T before[Items];
        FlagHeads(flags, input, before, operation);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeads(Flag (&flags)[Items], T (&input)[Items], Operator operation, T given) {
        T before[Items];
        FlagHeads(flags, input, before, operation, given);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagTails(Flag (&flags)[Items], T (&input)[Items], Operator operation) {
        show(input, true, false);
        tails(flags, input, operation);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagTails(Flag (&flags)[Items], T (&input)[Items], Operator operation, T given) {
        show(input, true, false);
        tails(flags, input, operation, given);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeadsAndTails(Flag (&head)[Items], Flag (&tail)[Items], T (&input)[Items], Operator operation) {
        T before[Items];
        show(input, true, true);
        heads(head, input, before, operation);
        tails(tail, input, operation);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeadsAndTails(Flag (&head)[Items], Flag (&tail)[Items], T behind, T (&input)[Items], Operator operation) {
        T before[Items];
        show(input, true, true);
        heads(head, input, before, operation);
        tails(tail, input, operation, behind);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeadsAndTails(Flag (&head)[Items], T given, Flag (&tail)[Items], T (&input)[Items], Operator operation) {
        T before[Items];
        show(input, true, true);
        heads(head, input, before, operation, given);
        tails(tail, input, operation);
    }
    template <int Items, class Flag, class Operator>
    TRIBUNAL_MEMBER void FlagHeadsAndTails(Flag (&head)[Items], T given, Flag (&tail)[Items], T behind, T (&input)[Items], Operator operation) {
        T before[Items];
        show(input, true, true);
        heads(head, input, before, operation, given);
        tails(tail, input, operation, behind);
    }
};

}
