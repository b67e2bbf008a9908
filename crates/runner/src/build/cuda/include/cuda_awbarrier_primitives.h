// Barriers in shared memory that count arrivals, and of which threads ask whether a phase is complete.
#pragma once

typedef unsigned long __mbarrier_t;
// What an arrival gives: the phase that it was in.
typedef unsigned long __mbarrier_token_t;

TRIBUNAL_DEVICE unsigned int tribunal_mbarrier(const __mbarrier_t *barrier) {
    return (unsigned int)__cvta_generic_to_shared(barrier);
}
TRIBUNAL_DEVICE constexpr unsigned int __mbarrier_maximum_count() { return (1u << 20) - 1; }
TRIBUNAL_DEVICE void __mbarrier_init(__mbarrier_t *barrier, unsigned int expected) {
    __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(tribunal_mbarrier(barrier)), "r"(expected) : "memory");
}
TRIBUNAL_DEVICE void __mbarrier_inval(__mbarrier_t *barrier) {
    __asm__ volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(tribunal_mbarrier(barrier)) : "memory");
}
#define TRIBUNAL_ARRIVE(name, instruction)                                                                     \
    TRIBUNAL_DEVICE __mbarrier_token_t name(__mbarrier_t *barrier) {                                           \
        __mbarrier_token_t token;                                                                              \
        __asm__ volatile("mbarrier." instruction ".shared.b64 %0, [%1];"                                       \
                         : "=l"(token)                                                                         \
                         : "r"(tribunal_mbarrier(barrier))                                                     \
                         : "memory");                                                                          \
        return token;                                                                                          \
    }
TRIBUNAL_ARRIVE(__mbarrier_arrive, "arrive")
TRIBUNAL_ARRIVE(__mbarrier_arrive_and_drop, "arrive_drop")
#undef TRIBUNAL_ARRIVE
// `count` arrivals that are not the last of their phase.
TRIBUNAL_DEVICE void tribunal_arrive_early(__mbarrier_t *barrier, unsigned int count) {
    __mbarrier_token_t token;
    __asm__ volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], %2;"
                     : "=l"(token)
                     : "r"(tribunal_mbarrier(barrier)), "r"(count)
                     : "memory");
}
// Whether the phase of a token is complete; or the last phase of a parity.
#define TRIBUNAL_TEST(name, type, constraint, instruction)                                                     \
    TRIBUNAL_DEVICE bool name(const __mbarrier_t *barrier, type phase) {                                       \
        unsigned int complete;                                                                                 \
        __asm__ volatile("{ .reg .pred complete; mbarrier." instruction ".shared.b64 complete, [%1], %2; "     \
                         "selp.u32 %0, 1, 0, complete; }"                                                      \
                         : "=r"(complete)                                                                      \
                         : "r"(tribunal_mbarrier(barrier)), constraint(phase)                                  \
                         : "memory");                                                                          \
        return complete;                                                                                       \
    }
TRIBUNAL_TEST(__mbarrier_test_wait, __mbarrier_token_t, "l", "test_wait")
TRIBUNAL_TEST(__mbarrier_test_wait_parity, unsigned int, "r", "test_wait.parity")
#undef TRIBUNAL_TEST
// How many arrivals the phase of a token waited for before it.
TRIBUNAL_DEVICE unsigned int __mbarrier_token_pending_count(__mbarrier_token_t token) {
    unsigned int count;
    __asm__("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(token));
    return count;
}
// All that the thread has copied until now arrives, when it is there, on top of what the phase waits for.
TRIBUNAL_DEVICE void __pipeline_arrive_on(__mbarrier_t *barrier) {
    __asm__ volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(tribunal_mbarrier(barrier)) : "memory");
}
