/* Many threads call the same functions for the first time at the same moment. Prints the sum, which is wrong if one call was lost
   or made twice. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8
static atomic_int ready;
static atomic_long sum;
#define F(number) __attribute__((noinline)) void h##number(void) { atomic_fetch_add(&sum, number); }
#define TEN(tens) F(tens##0) F(tens##1) F(tens##2) F(tens##3) F(tens##4) F(tens##5) F(tens##6) F(tens##7) F(tens##8) F(tens##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
#define N(number) h##number,
#define NAMES(tens) N(tens##0) N(tens##1) N(tens##2) N(tens##3) N(tens##4) N(tens##5) N(tens##6) N(tens##7) N(tens##8) N(tens##9)
static void (*const all[])(void) = {NAMES(1) NAMES(2) NAMES(3) NAMES(4) NAMES(5) NAMES(6) NAMES(7) NAMES(8) NAMES(9)};

static void *thread(void *argument) {
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS) {}
    for (int index = 0; index < 90; index++) all[index]();
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++) pthread_create(&threads[index], 0, thread, 0);
    for (int index = 0; index < THREADS; index++) pthread_join(threads[index], 0);
    printf("%ld\n", atomic_load(&sum));
    return 0;
}
