// What library.cpp and program.cpp share. Test fixture.
extern "C" {
extern const char *exported[3];
unsigned sum_of_words();
void use(int depth);
}

// Words, so many that their relocations fill pages.
#define TEN(word) word "0", word "1", word "2", word "3", word "4", word "5", word "6", word "7", word "8", word "9"
#define HUNDRED(word) \
    TEN(word "0"), TEN(word "1"), TEN(word "2"), TEN(word "3"), TEN(word "4"), TEN(word "5"), TEN(word "6"), \
        TEN(word "7"), TEN(word "8"), TEN(word "9")
#define THOUSAND(word) \
    HUNDRED(word "0"), HUNDRED(word "1"), HUNDRED(word "2"), HUNDRED(word "3"), HUNDRED(word "4"), HUNDRED(word "5"), \
        HUNDRED(word "6"), HUNDRED(word "7"), HUNDRED(word "8"), HUNDRED(word "9")
#define WORDS \
    THOUSAND("a"), THOUSAND("b"), THOUSAND("c"), THOUSAND("d"), THOUSAND("e"), THOUSAND("f"), THOUSAND("g"), \
        THOUSAND("h"), THOUSAND("i"), THOUSAND("j")
