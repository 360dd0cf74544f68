// Throws through functions whose first instructions call; the catcher looks at what it got.
#include <cstdio>
#include <stdexcept>
#include <string>
namespace q {
volatile int sink;
__attribute__((noinline, noipa)) void throws(int n) { if (n % 2) throw std::runtime_error(std::to_string(n)); }
__attribute__((noinline, noipa)) int first() { throws(3); return ++sink; }
struct Kept { ~Kept() { sink = sink + 1; } };
__attribute__((noinline, noipa)) int through(int n) { Kept kept; throws(n); return sink; }
template <typename T> __attribute__((noinline, noipa)) T of(T n) { return n + through(2); }
}
int main() {
    int caught = 0, sum = 0;
    for (int n = 0; n < 100; n++) {
        try { q::through(n); } catch (const std::runtime_error &error) { caught++; sum += std::stoi(error.what()); }
    }
    for (int n = 0; n < 40; n++) {
        try { q::first(); } catch (const std::runtime_error &error) { caught++; }
    }
    q::of(1);
    q::of(2.5);
    if (caught != 90 || sum != 2500 || q::sink != 102) return 1;
    std::printf("q::throws 142\nq::first 40\nq::through 102\nq::of<int> 1\nq::of<double> 1\n");
}
