/* Tells `thaw heap` about blocks of a pool or an arena. Costs a test of a pointer where no recorder is there; nothing is linked. */
#ifndef THAW_HEAP_H
#define THAW_HEAP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The recorder's functions; null without it. Call the ones below. */
__attribute__((weak)) void thaw_pool_alloc(void *block, size_t size);
__attribute__((weak)) void thaw_pool_free(void *block);

/* A pool has handed out this block. */
static inline void thaw_tell_pool_alloc(void *block, size_t size)
{
    if (thaw_pool_alloc) thaw_pool_alloc(block, size);
}

/* The block is about to go back to its pool. */
static inline void thaw_tell_pool_free(void *block)
{
    if (thaw_pool_free) thaw_pool_free(block);
}

#ifdef __cplusplus
}
#endif
#endif
