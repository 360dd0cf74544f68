// A library with a table of pointers to its own symbols, each of which stands for one reason. Test fixture.
extern "C" {
int plain() { return 1; }
int plain_data = 2;
int defined_twice() { return 3; }
int copied = 4;
int address_taken() { return 5; }
__attribute__((weak)) int weak_function() { return 6; }
__attribute__((weak)) int weak_data = 7;
// operator new of a library that comes with its own.
void *malloc_usable_size() { return 0; }
int chosen_now() { return 8; }
int (*choose())() { return chosen_now; }
int chosen() __attribute__((ifunc("choose")));
}

struct Shared {
    virtual ~Shared() {}
    virtual int number() { return 9; }
};
template <int N> struct Unique {
    static int value;
};
template <int N> int Unique<N>::value = 10;

extern "C" {
extern const void *table[];
const void *table[] = {
    (const void *)plain,      &plain_data, (const void *)defined_twice, &copied, (const void *)address_taken,
    (const void *)weak_function, &weak_data, (const void *)malloc_usable_size, (const void *)chosen, &Unique<1>::value,
    // With an addend.
    (const char *)&plain_data + 1,
};
const void *const *entry(int index) { return table + index; }
Shared *make_shared() { return new Shared; }
int make()
{
    Shared *shared = make_shared();
    int number = shared->number();
    delete shared;
    return number;
}
}
