// The plugin: opened and closed while the program runs.
#include "corpus.h"

namespace {
char pool[32768];
const char *const table[] = {POINTERS_4096(pool), POINTERS_4096(pool + 100), POINTERS_4096(pool + 3)};
__thread int own_tls = 3;
struct Mark {
    Mark() { corpus_note('P'); }
    ~Mark() { corpus_note('Q'); }
} mark;
} // namespace

extern "C" {
EXPORT int plugin_run(int value) {
    own_tls += value;
    unsigned long long sum = SUM(table, pool);
    return own_tls + (int)(sum % 97);
}
EXPORT void plugin_throw(void) { throw Trouble(own_tls); }
EXPORT int plugin_uses_program(int value) {
    extern int program_doubles(int);
    return program_doubles(value);
}
}
