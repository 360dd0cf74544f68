# Nine programs that allocate, as commands by name: sourced after common.sh, not run. WORKLOADS="json perl" chooses some.
# json, sqlite, stress and clang were there when the recorder was made; map, perl, node, xmllint and numpy are workloads that nobody chose.
# shellcheck shell=bash
# shellcheck disable=SC2034
# shellcheck disable=SC2154
workloads=${WORKLOADS:-json sqlite stress clang map perl node xmllint numpy}
dev/install sqlite3 python3 clang gcc g++ perl nodejs libxml2-utils python3-numpy
cc -O2 -fno-builtin "$root/claims/heap/stress.c" -o "$work/stress" -lpthread
python=$(readlink -f "$(command -v /usr/bin/python3)")
clang=$(readlink -f "$(command -v clang)")
"$python" - "$work/data.json" <<'PYTHON'
import json, random, sys
random.seed(1)
numbers = lambda: [random.randrange(10**6) for _ in range(6)]
record = lambda i: {"id": i, "name": "user%d" % i, "tags": ["t%d" % random.randrange(1000) for _ in range(5)],
                    "score": random.random() * 1e6, "nested": {"a": i * 3, "b": str(random.random()), "c": numbers()}}
json.dump([record(i) for i in range(46000)], open(sys.argv[1], "w"))
PYTHON
cat >"$work/heavy.cpp" <<'CPP'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Tower { using type = std::tuple<std::map<std::string, std::vector<std::pair<int, std::variant<int, double, std::string>>>>, typename Tower<N - 1>::type>; };
template <> struct Tower<0> { using type = std::unordered_map<int, std::function<std::string(int)>>; };
template <int N> int use() { typename Tower<N>::type tower; std::get<0>(tower)["x"].push_back({N, 1.5}); return use<N - 1>() + int(std::get<0>(tower).size()); }
template <> int use<0>() { return 0; }
int main() { std::regex pattern("(a|b)*c"); std::cout << use<14>() << std::regex_match("abc", pattern); }
CPP
sql="create table t(a integer primary key, b text, c real); with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
insert into t select i, 'row ' || (i * 7919 % 300007), i * 0.5 from n; create index x on t(b); create index y on t(c);
select count(*), length(group_concat(b)) from t; select count(*) from t p join t q on p.b = q.b;"
cat >"$work/map.cpp" <<'CPP'
#include <cstdio>
#include <map>
#include <string>
int main() {
    std::map<int, std::string> map;
    unsigned state = 1;
    for (int i = 0; i < 3000000; i++) {
        state = state * 1664525u + 1013904223u;
        int key = state >> 12 & 0xffff;
        if (state & 0x80000000u) map[key] = "a value that is too long to lie in the string itself, of row " + std::to_string(i);
        else map.erase(key);
    }
    std::printf("%zu\n", map.size());
}
CPP
g++ -O2 -o "$work/map" "$work/map.cpp"
cat >"$work/words.pl" <<'PERL'
my (%seen, @all); my $state = 1;
for my $i (1 .. 400000) { $state = ($state * 1103515245 + 12345) % 2147483648; $seen{"w" . $state % 50000}{$i % 7} .= "x$i,"; push @all, "$i:$state" if $i % 3 == 0 }
my @sorted = sort { $a cmp $b } @all; print scalar(keys %seen), " ", scalar(grep { /7.*3/ } @sorted), "\n";
PERL
cat >"$work/server.js" <<'JS'
const zlib = require("zlib"), crypto = require("crypto");
let live = new Map(), sum = 0;
for (let i = 0; i < 40000; i++) {
    const body = Buffer.alloc(2000 + i % 500, "row " + i);
    live.set(i % 2000, { body, packed: i % 10 ? null : zlib.deflateRawSync(body), hash: crypto.createHash("sha1").update(body).digest() });
    sum += live.get(i % 2000).hash[0];
}
console.log(sum, live.size);
JS
"$python" - "$work/data.xml" <<'PYTHON'
import random, sys
random.seed(2)
with open(sys.argv[1], "w") as out:
    out.write("<rows>")
    for i in range(120000):
        out.write('<row id="%d" kind="%s"><name>user %d</name><score>%.3f</score></row>' % (i, random.choice("abc"), i, random.random()))
    out.write("</rows>")
PYTHON
cat >"$work/arrays.py" <<'PYTHON'
import numpy as np
rng, total = np.random.default_rng(3), 0.0
for i in range(300):
    a = rng.random((200, 200))
    total += float(np.linalg.eigvalsh(a @ a.T)[0] + np.fft.fft(a).real.sum() + np.sort(a, axis=None)[:10].sum())
    total += sum(float(row.sum()) for row in a)
print(total)
PYTHON
# The system's own allocator, for the Python workload; the others do not look at it.
export PYTHONMALLOC=malloc
# One thread does the work of numpy, whatever the machine has.
export OPENBLAS_NUM_THREADS=1
declare -A workload=(
    [json]="$python -c 'import json; json.dumps(json.load(open(\"$work/data.json\")))'"
    [sqlite]="sqlite3 :memory: \"$sql\""
    [stress]="$work/stress"
    [clang]="$clang -cc1 -triple x86_64-pc-linux-gnu -emit-obj -O1 -std=c++17 -fcxx-exceptions -fexceptions -internal-isystem /usr/include/c++/$(gcc -dumpversion) \
        -internal-isystem /usr/include/x86_64-linux-gnu/c++/$(gcc -dumpversion) -internal-isystem $("$clang" -print-resource-dir)/include \
        -internal-externc-isystem /usr/include/x86_64-linux-gnu -internal-externc-isystem /usr/include -x c++ $work/heavy.cpp -o $work/heavy.o"
    [map]="$work/map"
    [perl]="perl $work/words.pl"
    [node]="node $work/server.js"
    [xmllint]="xmllint --noout $work/data.xml"
    [numpy]="/usr/bin/python3 $work/arrays.py"
)
