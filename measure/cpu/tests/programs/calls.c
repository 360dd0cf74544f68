/* Calls a function of a library for the first time. */
int chosen(int it);

__attribute__((noinline)) int caller(int it) {
    int found = chosen(it);
    __asm__ volatile("" : "+r"(found));
    return found;
}

int main(int count, char **words) {
    (void)words;
    int found = caller(count);
    __asm__ volatile("" : "+r"(found));
    return found;
}
