// Copies from global to shared memory that a thread does not wait for at once.
#pragma once

// 4, 8 or 16 bytes, of which the last `zeros` are not read and become 0.
TRIBUNAL_DEVICE void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zeros = 0) {
    unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    size_t from = __cvta_generic_to_global(global);
    unsigned int read = (unsigned int)(bytes - zeros);
    if (bytes == 16) {
        __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
    } else if (bytes == 8) {
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
    } else {
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
    }
}
TRIBUNAL_DEVICE void __pipeline_commit() { __asm__ volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `prior` of the groups committed last are under way; `prior` must be a constant from 0 to 7.
TRIBUNAL_DEVICE void __pipeline_wait_prior(unsigned int prior) {
    switch (prior) {
    case 0: __asm__ volatile("cp.async.wait_group 0;" ::: "memory"); break;
    case 1: __asm__ volatile("cp.async.wait_group 1;" ::: "memory"); break;
    case 2: __asm__ volatile("cp.async.wait_group 2;" ::: "memory"); break;
    case 3: __asm__ volatile("cp.async.wait_group 3;" ::: "memory"); break;
    case 4: __asm__ volatile("cp.async.wait_group 4;" ::: "memory"); break;
    case 5: __asm__ volatile("cp.async.wait_group 5;" ::: "memory"); break;
    case 6: __asm__ volatile("cp.async.wait_group 6;" ::: "memory"); break;
    default: __asm__ volatile("cp.async.wait_group 7;" ::: "memory"); break;
    }
}
