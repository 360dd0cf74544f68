// Generated from the Rust report types; a test of app/view keeps it fresh. Make it again with
// `cargo run -p view --example types > viewer/src/types/generated.ts`.

export type Below = "open" | "folded";

export type Bytes = number;

export type CacheState = "hot" | "app" | "boot" | "cold";

export type Category = "small" | "large" | "huge";

export type Cause = "read" | "fault" | "readahead" | "metadata" | "write" | "unknown";

export type CauseReport = { 
/**
 * Why.
 */
cause: Cause, 
/**
 * How much.
 */
filled: Bytes, };

export type Cell = { 
/**
 * Index of the variant.
 */
variant: number, 
/**
 * Name of the variant.
 */
variant_name: string, 
/**
 * Cache state.
 */
state: CacheState, 
/**
 * Accepted timed runs: what all figures of this cell are made of.
 */
runs: number, 
/**
 * Timed runs that do not count; [`Report::rejected`] lists them.
 */
rejected: number, 
/**
 * Mean wall time with the t interval of its log, which does not reach below 0.
 */
mean_s: Estimate, 
/**
 * Half of the mean's interval as a share of the mean: the "± 0.5 %" of the table.
 */
mean_half_width: number | null, 
/**
 * Median wall time with its BCa bootstrap interval.
 */
median_s: Estimate, 
/**
 * Sample standard deviation of the wall time; `None` with one run.
 */
stddev_s: number | null, 
/**
 * Fastest run.
 */
min_s: number, 
/**
 * Slowest run.
 */
max_s: number, 
/**
 * Mean CPU time in user mode, with an interval like that of `mean_s`.
 */
user_s: Estimate, 
/**
 * Mean CPU time in the kernel, likewise.
 */
system_s: Estimate, 
/**
 * Median of the largest resident set.
 */
max_rss_bytes: number, 
/**
 * Median of page faults served without the disk.
 */
minor_faults: number, 
/**
 * Median of page faults that waited for the disk.
 */
major_faults: number, 
/**
 * Median of bytes read from block devices; `None`: this machine could not tell.
 */
read_bytes: number | null, 
/**
 * Median of read requests to block devices.
 */
read_requests: number | null, 
/**
 * Median of bytes written to block devices.
 */
written_bytes: number | null, 
/**
 * Median of instructions retired.
 */
instructions: number | null, 
/**
 * Median of CPU cycles.
 */
cycles: number | null, 
/**
 * The readiness probes that fired, in the order of their median times.
 */
milestones: Array<MilestoneReport>, 
/**
 * Runs far from the others (modified z-score above 3.5); they are kept in all figures.
 */
outliers: Array<RunId>, 
/**
 * Runs taken while the rest of the machine was busy; they are kept in all figures.
 */
busy: Array<RunId>, 
/**
 * Trend of the wall time in the order of the runs; `None`: too few runs.
 */
drift: Drift | null, 
/**
 * Lag-1 autocorrelation of the wall time in the order of the runs.
 */
lag1: number | null, 
/**
 * Every accepted timed run, in the order taken.
 */
samples: Array<Sample>, };

export type CellName = { 
/**
 * Index of the variant.
 */
variant: number, 
/**
 * Name of the variant.
 */
variant_name: string, 
/**
 * Cache state.
 */
state: CacheState, };

export type Certainty = "strong" | "probable";

export type ChangedFact = { 
/**
 * `disk:vda read_ahead_kb`
 */
name: string, 
/**
 * Before; `None`: not recorded.
 */
before: string | null, 
/**
 * After; `None`: not recorded.
 */
after: string | null, };

export type ClassSlop = { 
/**
 * How such requests are treated.
 */
category: Category, 
/**
 * Bytes that the allocator gives for a block of the class.
 */
usable: number, 
/**
 * Blocks made.
 */
blocks: number, 
/**
 * Bytes asked for.
 */
requested_bytes: Bytes, 
/**
 * Bytes given and not asked for.
 */
slop_bytes: Bytes, };

export type Clownshoes = { 
/**
 * What makes the request too large, probably.
 */
cause: ClownshoesCause, 
/**
 * How sure the cause is.
 */
certainty: Certainty, 
/**
 * The requests, most waste first.
 */
shoes: Array<Shoe>, 
/**
 * What the requests waste under each allocator where they waste much.
 */
waste: Array<Waste>, 
/**
 * Blocks of the place that are no such requests, of 1024 bytes and more.
 */
other_blocks: number, 
/**
 * Where, innermost first.
 */
site: Array<HeapFrame>, };

export type ClownshoesCause = "terminator" | "stored-word" | "header" | "unclear";

export type Comparison = { 
/**
 * [`REPORT_VERSION`].
 */
version: number, 
/**
 * One per variant and state that both recordings have.
 */
states: Array<StateComparison>, 
/**
 * (cold2-hot2)-(cold1-hot1), 1 being the recording before and 2 the one after.
 */
differences: Array<Difference>, 
/**
 * Facts about the machines that differ.
 */
changed: Array<ChangedFact>, 
/**
 * Doubts about the figures above.
 */
warnings: Array<Warning>, };

export type Contrast = { 
/**
 * In words: `b / a (cold)` or `cold / hot (firefox)`.
 */
what: string, 
/**
 * Above the line.
 */
new: CellName, 
/**
 * Below the line.
 */
old: CellName, 
/**
 * Median of new over median of old, the two of the table, with its BCa bootstrap interval.
 */
ratio: Estimate, 
/**
 * Geometric mean of the ratios of runs of the same block, with its t interval: another figure than `ratio` where
 * some runs are much slower than most. `None`: fewer than three pairs.
 */
in_pairs: Estimate | null, 
/**
 * Two-sided permutation p of "there is no difference": of the signs of the pairs if `in_pairs` is known, else of
 * labels.
 */
p: number, 
/**
 * How `ratio` was made: of medians.
 */
method: Method, 
/**
 * Blocks in which both have an accepted run.
 */
pairs: number, };

export type CourseCheckpoint = { 
/**
 * Its name.
 */
name: string, 
/**
 * The versions, in the order of the scenario.
 */
versions: Array<CourseVersion>, };

export type CourseFigure = { 
/**
 * Each run.
 */
runs: Array<number>, 
/**
 * Their median with its interval; `None`: no run came there.
 */
median: Estimate | null, 
/**
 * The median by that of the first version; `None`: it is that one, or one of both is not known.
 */
to_first: Estimate | null, };

export type CourseVersion = { 
/**
 * Its name.
 */
version: string, 
/**
 * Median of the seconds since the start.
 */
at_s: number | null, 
/**
 * Sum of the proportional sizes.
 */
pss: CourseFigure, 
/**
 * Sum of the unique sizes.
 */
uss: CourseFigure, 
/**
 * Sum of the resident sizes.
 */
rss: CourseFigure, 
/**
 * Number of processes.
 */
processes: CourseFigure, };

export type Difference = { 
/**
 * In words: `(cold-hot) of b minus (cold-hot) of a`.
 */
what: string, 
/**
 * The slower state: cold.
 */
slow: CacheState, 
/**
 * The faster state: hot.
 */
fast: CacheState, 
/**
 * Name of the first variant (or recording).
 */
old: string, 
/**
 * Name of the second.
 */
new: string, 
/**
 * Seconds, with its BCa bootstrap interval.
 */
difference_s: Estimate, };

export type DiskReport = { 
/**
 * The recorded device that the requests were for, packed by `makedev`; the one with the most bytes.
 */
device: number, 
/**
 * Length of the recorded start.
 */
length_ns: Nanos, 
/**
 * Requests of the program within it, also writes and flushes.
 */
requests: number, 
/**
 * Their bytes.
 */
bytes: Bytes, 
/**
 * Requests of the program for other devices; no disk below has them.
 */
elsewhere: number, 
/**
 * One line for each disk.
 */
disks: Array<OnDisk>, };

export type Drift = { 
/**
 * Theil-Sen slope: the median of the slopes of all pairs; unit of the data per run.
 */
slope_per_run: number, 
/**
 * The slope as a share of the median: 0.02 is "2 % per run". 0 if the median is 0.
 */
share_per_run: number, 
/**
 * Two-sided p of Mann and Kendall's test of "there is no trend".
 */
p: number, };

export type Estimate = { 
/**
 * The point estimate; NaN when there was no data at all.
 */
value: number | null, 
/**
 * `None`: too few values for an interval.
 */
interval: Interval | null, };

export type Figures = { 
/**
 * Blocks made in the window.
 */
made: Held, 
/**
 * Of these, live at the window's end.
 */
end: Held, 
/**
 * Of these, live when the process had the most bytes live.
 */
peak: Held, 
/**
 * Most bytes of this site live at a time, and how many blocks these were.
 */
max: Held, 
/**
 * Of those made, freed by their thread's next event: they were needed for nothing else.
 */
temporary: Held, 
/**
 * Of those made, freed by another thread than their maker.
 */
handed_over: Held, 
/**
 * Sum over the blocks made: from making to freeing, or to the window's end.
 */
lifetime_ns: Nanos, 
/**
 * Of those live at the end, what a leak check knew. Not in files of sums.
 */
reached?: Reached, };

export type FileKind = "regular" | "metadata" | "memory" | "unnamed";

export type FileReport = { 
/**
 * Its path; bytes that are not UTF-8 are shown as U+FFFD.
 */
path: string, 
/**
 * Whose it is.
 */
owner: Owner, 
/**
 * How that is known; `None`: the recording does not tell.
 */
owned_by: OwnedBy | null, 
/**
 * What it is.
 */
kind: FileKind, 
/**
 * When it was first touched.
 */
first_touch_ns: Nanos | null, 
/**
 * Bytes that came into the cache.
 */
filled: Bytes, 
/**
 * Its size.
 */
size: Bytes, 
/**
 * Bytes that were asked for by reads and faults, in whole pages, at least.
 */
asked: Bytes, 
/**
 * Bytes that a start needs of it, in whole pages, from a run without read-ahead; `None`: there was none, it is
 * metadata or lies in memory, or it is unknown because of `held_by`.
 */
needed: Bytes | null, 
/**
 * Other processes map it, so that its pages may have been in memory before: what a start needs of it is unknown.
 */
held_by: HeldBy | null, 
/**
 * Read requests.
 */
requests: number, 
/**
 * Bytes that they brought.
 */
bytes_from_disk: Bytes, 
/**
 * Bytes that reads past the page cache (`O_DIRECT`) asked for; none of them came into the cache.
 */
direct: Bytes, 
/**
 * Its fair share of the time in which requests were in flight.
 */
waiting: Nanos, 
/**
 * Pieces on disk, if the file system tells.
 */
extents: number | null, 
/**
 * How often it was opened, at least; `None` if the engine saw none or cannot know.
 */
opens: number | null, 
/**
 * How often it was synced.
 */
syncs: number, 
/**
 * Its ELF sections that were filled or waited for, by place.
 */
sections: Array<SectionReport>, };

export type Finding = { 
/**
 * By which events growth was seen.
 */
how: GrowthHow, 
/**
 * By which rule they grow.
 */
shape: GrowthShape, 
/**
 * Bytes that a step adds (linear), or the factor of a step (exponential): of the largest buffer.
 */
typical_step: number, 
/**
 * Number of buffers.
 */
buffers: number, 
/**
 * Steps in which these buffers grew.
 */
steps: number, 
/**
 * Sum of all their sizes.
 */
allocated_bytes: Bytes, 
/**
 * Sum of the blocks that the allocator made of it, by its model; a growth within a block needs no new one.
 */
rounded_bytes: Bytes, 
/**
 * What doubling would not have allocated.
 */
avoidable_bytes: Bytes, 
/**
 * What was copied: old sizes of the steps that left their place.
 */
copied_bytes: Bytes, 
/**
 * Calls that doubling would not have made.
 */
avoidable_calls: number, 
/**
 * Smallest last size.
 */
least_last_bytes: Bytes, 
/**
 * Largest last size.
 */
most_last_bytes: Bytes, 
/**
 * All buffers end within 10 % of each other, and they are 20 or more: this size could be reserved at once.
 */
predictable: boolean, 
/**
 * The first sizes of the largest buffer.
 */
example: Array<number>, 
/**
 * Where the last growth was asked for, innermost first.
 */
site: Array<HeapFrame>, };

export type FragmentReport = { 
/**
 * Its path.
 */
path: string, 
/**
 * Pieces on disk.
 */
extents: number, 
/**
 * Its size.
 */
size: Bytes, };

export type FunctionReport = { 
/**
 * How many there are.
 */
total: number, 
/**
 * How many were called.
 */
called: number, 
/**
 * Bytes of all.
 */
bytes: Bytes, 
/**
 * Bytes of those that were called.
 */
called_bytes: Bytes, 
/**
 * Pages that the called ones would take side by side.
 */
packed_pages: number, 
/**
 * Pages that they lie on now.
 */
pages: number, 
/**
 * Of these, pages on which one called function lies alone and does not fill the page: what it alone keeps in
 * memory.
 */
lonely_pages: number, 
/**
 * Where the starts were taken from; `None` in a sum.
 */
starts: StartsFrom | null, };

export type GrowthHow = "realloc" | "copy-and-free";

export type GrowthReport = { 
/**
 * Each process that allocated.
 */
processes: Array<ProcessGrowth>, 
/**
 * All doubts.
 */
warnings: Array<Warning>, };

export type GrowthShape = "linear" | "exponential";

export type HeapFrame = { 
/**
 * The function, demangled; `None`: nothing names it.
 */
function: string | null, 
/**
 * The object's path; of a function of an interpreter its source; empty: code made at run time.
 */
module: string, 
/**
 * The source file.
 */
file: string | null, 
/**
 * The line in it, from 1.
 */
line: number | null, 
/**
 * Whether the compiler put the function into its caller.
 */
inlined: boolean, 
/**
 * Return address minus one, as an address of the object's file; 0 for named frames, whose address means nothing
 * to another build.
 */
address: number, };

export type Held = { 
/**
 * Bytes that the program asked for.
 */
bytes: number, 
/**
 * Number of blocks.
 */
blocks: number, };

export type HeldBy = { 
/**
 * How many processes.
 */
processes: number, 
/**
 * One of them, number and name: `1 systemd`.
 */
example: string, };

export type Interval = { 
/**
 * Lower end.
 */
low: number, 
/**
 * Upper end.
 */
high: number, };

export type IoReport = { 
/**
 * [`REPORT_VERSION`].
 */
version: number, 
/**
 * How the trace was taken.
 */
info: TraceInfo, 
/**
 * The sums.
 */
totals: Totals, 
/**
 * Files in the order of their first touch: line `n` is file `n` of the trace. Lines behind those hold what
 * requests without a known file cost, so that the lines' waiting times sum up to the total.
 */
files: Array<FileReport>, 
/**
 * By cause, the most bytes first.
 */
by_cause: Array<CauseReport>, 
/**
 * By owner, the program first.
 */
by_owner: Array<OwnerReport>, 
/**
 * Processes by start.
 */
processes: Array<ProcessReport>, 
/**
 * Files in more than one piece on disk, the most pieces first.
 */
fragmented: Array<FragmentReport>, 
/**
 * Files that were synced, the longest first.
 */
synced: Array<SyncReport>, 
/**
 * Files that were opened [`OFTEN`] times or more, the most often opened first.
 */
opened_often: Array<OpenReport>, 
/**
 * Doubts.
 */
warnings: Array<Warning>, };

export type Measure = "made" | "end" | "peak" | "temporary" | Reach;

export type MemoryNode = { 
/**
 * Its name; names of a merged chain joined by `/`. `\` in it stands for a slash.
 */
name: string, 
/**
 * In the unit of the tree.
 */
amount: number, 
/**
 * Unit of the tree.
 */
units: Units, 
/**
 * What it is.
 */
description: string, 
/**
 * Reports of this path that were added up.
 */
reports: number, 
/**
 * In differences.
 */
presence?: MemoryPresence, 
/**
 * Whether the kids are shown.
 */
below: Below, 
/**
 * What it is the sum of, largest first.
 */
kids?: Array<MemoryNode>, };

export type MemoryPresence = "first-only" | "second-only" | "added";

export type MemoryProcess = { 
/**
 * Its name.
 */
name: string, 
/**
 * The explicit tree first, then the others by name.
 */
trees: Array<MemoryNode>, 
/**
 * Single figures, by name.
 */
others: Array<MemoryNode>, 
/**
 * Doubts.
 */
warnings: Array<Warning>, };

export type Method = "paired-log-ratio" | "ratio-of-medians";

export type MetricChange = { 
/**
 * `cpu_s`, `instructions`, `read_bytes`, ...: as in [`Sample`], and `cpu_s` is user and system.
 */
metric: string, 
/**
 * Median before.
 */
before: number, 
/**
 * Median after.
 */
after: number, 
/**
 * after / before; `None` if before is 0.
 */
ratio: number | null, };

export type MilestoneReport = { 
/**
 * Its name, as on the command line.
 */
name: string, 
/**
 * Median time since exec, with its BCa bootstrap interval.
 */
median_s: Estimate, 
/**
 * Runs in which it fired.
 */
runs: number, };

export type Model = "glibc" | "moz2011" | "moz" | "jemalloc5" | "mimalloc" | "tcmalloc";

export type Nanos = number;

export type NoiseFloor = { 
/**
 * One per state and further variant.
 */
states: Array<NoiseState>, };

export type NoiseState = { 
/**
 * Cache state.
 */
state: CacheState, 
/**
 * Pairs of runs.
 */
pairs: number, 
/**
 * The program against itself: should contain 1.
 */
ratio: Estimate, 
/**
 * Two-sided sign-flip permutation p.
 */
p: number, 
/**
 * The smallest change that a recording with this many pairs shows in four cases out of five (0.03: 3 %).
 * `None`: too few pairs.
 */
smallest_change: number | null, };

export type OnDisk = { 
/**
 * The preset's name.
 */
disk: string, 
/**
 * One line for people.
 */
title: string, 
/**
 * How long the disk is busy with the requests as they came.
 */
as_is_ns: Nanos, 
/**
 * How long with all reads in the order of the disk, each byte once; then the writes.
 */
sorted_ns: Nanos, 
/**
 * `as_is_ns / sorted_ns`
 */
ratio: number, 
/**
 * The requests as they came.
 */
as_is: Order, 
/**
 * The requests sorted.
 */
sorted: Order, };

export type OpenReport = { 
/**
 * Its path.
 */
path: string, 
/**
 * How often, at least.
 */
count: number, };

export type Order = { 
/**
 * Length of the whole start: disk and program.
 */
start_ns: Nanos, 
/**
 * Requests.
 */
requests: number, 
/**
 * Their bytes.
 */
bytes: Bytes, 
/**
 * Requests that made the arm move.
 */
seeks: number, 
/**
 * How far the head jumped.
 */
travel: Bytes, };

export type Overhead = { 
/**
 * Name of the variant.
 */
variant_name: string, 
/**
 * Cache state.
 */
state: CacheState, 
/**
 * CPU time (user and kernel), traced over timed; `None` if the CPU time is too short to be counted.
 */
cpu_ratio: Estimate | null, 
/**
 * Wall time, traced over timed.
 */
wall_ratio: Estimate | null, 
/**
 * Traced runs that count.
 */
traced_runs: number, 
/**
 * Timed runs that they are compared with.
 */
timed_runs: number, 
/**
 * How the ratios were made.
 */
method: Method, };

export type OwnedBy = { 
/**
 * By which rule.
 */
rule: OwnerRule, 
/**
 * The package or directory that the rule found.
 */
what: string | null, 
/**
 * Why that package is the program's.
 */
because: string | null, };

export type Owner = "app" | "system";

export type OwnerReport = { 
/**
 * Whose.
 */
owner: Owner, 
/**
 * Number of files.
 */
files: number, 
/**
 * Bytes that came into the cache.
 */
filled: Bytes, 
/**
 * Read requests.
 */
requests: number, 
/**
 * Bytes that they brought.
 */
bytes_from_disk: Bytes, 
/**
 * Share of the waiting time.
 */
waiting: Nanos, 
/**
 * How that is known, the most bytes first; empty where the recording does not tell.
 */
rules: Array<RuleReport>, };

export type OwnerRule = "program" | "argument" | "option" | "preset" | "restored" | "package" | "directory" | "home"
  | "temporary" | "metadata" | "other" | "unknown";

export type ProcessGrowth = { 
/**
 * The number of the process, in its own namespace.
 */
pid: number, 
/**
 * The program.
 */
exe: string, 
/**
 * Bytes asked for, all blocks.
 */
allocated_bytes: Bytes, 
/**
 * Buffers that grew in [`LEAST_STEPS`] steps or more.
 */
grown_buffers: number, 
/**
 * Places that grow buffers too slowly, the costliest first; as many as were asked for.
 */
findings: Array<Finding>, 
/**
 * Places that make buffers smaller and larger by turns, most bytes first; as many as were asked for.
 */
swings: Array<Swing>, };

export type ProcessReport = { 
/**
 * Its number.
 */
pid: number, 
/**
 * Its parent.
 */
parent: number, 
/**
 * Its name.
 */
comm: string, 
/**
 * What it executed last.
 */
exe: string | null, 
/**
 * When it began.
 */
start_ns: Nanos, 
/**
 * When it ended, if it did.
 */
end_ns: Nanos | null, 
/**
 * Bytes that it brought into the cache.
 */
filled: Bytes, 
/**
 * Read requests on its behalf.
 */
requests: number, 
/**
 * Its fair share of the time in which requests were in flight.
 */
waiting: Nanos, };

export type ProcessSlop = { 
/**
 * The number of the process, in its own namespace.
 */
pid: number, 
/**
 * The program.
 */
exe: string, 
/**
 * The object that holds the allocator.
 */
allocator: string, 
/**
 * The model of that allocator, if there is one.
 */
allocator_model: Model | null, 
/**
 * Where the sizes of blocks in the tables of classes and places come from.
 */
given: SlopSource, 
/**
 * The model of these tables; with recorded sizes, that of their categories, and of the blocks whose size was not
 * told.
 */
model: Model, 
/**
 * Blocks made.
 */
blocks: number, 
/**
 * Bytes asked for, all blocks.
 */
requested_bytes: Bytes, 
/**
 * Most bytes asked for at a time.
 */
peak_requested_bytes: Bytes, 
/**
 * Given and not asked for, as recorded; `None`: it was not.
 */
recorded: Slop | null, 
/**
 * What each allocator would give for it.
 */
what_if: Array<WhatIf>, 
/**
 * By size class, most slop first.
 */
classes: Array<ClassSlop>, 
/**
 * By place, most slop first; as many as were asked for.
 */
sites: Array<SiteSlop>, 
/**
 * Places that ask for a little more than a power of two, most waste first; as many as were asked for.
 */
clownshoes: Array<Clownshoes>, };

export type Reach = "lost" | "indirect" | "possible" | "reachable";

export type Reached = { 
/**
 * [`Reach::Lost`].
 */
lost: Held, 
/**
 * [`Reach::Indirect`].
 */
indirect: Held, 
/**
 * [`Reach::Possible`].
 */
possible: Held, 
/**
 * [`Reach::Reachable`].
 */
reachable: Held, };

export type Rejected = { 
/**
 * Its number in the recording.
 */
run: RunId, 
/**
 * Index of the variant.
 */
variant: number, 
/**
 * The state that it claimed.
 */
state: CacheState, 
/**
 * Why it was made.
 */
kind: RunKind, 
/**
 * 1 for the first try, 2 for its repetition, ...
 */
attempt: number, 
/**
 * Why it does not count.
 */
because: string, };

export type RuleReport = { 
/**
 * The rule, and what it found.
 */
by: OwnedBy, 
/**
 * Number of files.
 */
files: number, 
/**
 * Bytes that came into the cache.
 */
filled: Bytes, };

export type RunId = number;

export type RunKind = "timed" | "trace" | "warmup" | "touch";

export type Sample = { 
/**
 * Its number in the recording.
 */
run: RunId, 
/**
 * Its random block.
 */
block: number, 
/**
 * Time until ready.
 */
wall_s: number, 
/**
 * CPU time in user mode.
 */
user_s: number, 
/**
 * CPU time in the kernel.
 */
system_s: number, 
/**
 * Largest resident set.
 */
max_rss_bytes: number, 
/**
 * Page faults served without the disk.
 */
minor_faults: number, 
/**
 * Page faults that waited for the disk.
 */
major_faults: number, 
/**
 * Bytes read from block devices.
 */
read_bytes: number | null, 
/**
 * Read requests to block devices.
 */
read_requests: number | null, 
/**
 * Bytes written to block devices.
 */
written_bytes: number | null, 
/**
 * Instructions retired.
 */
instructions: number | null, 
/**
 * CPU cycles.
 */
cycles: number | null, 
/**
 * CPU time of others as a share of all CPUs (0..1).
 */
others_cpu_share: number | null, 
/**
 * Share of the run in which others waited for the disk (0..1).
 */
others_io_pressure: number | null, 
/**
 * Exit code of the first process, if it ended by itself.
 */
exit_code: number | null, };

export type SectionReport = { 
/**
 * `.text`
 */
name: string, 
/**
 * Its size in the file.
 */
size: Bytes, 
/**
 * Bytes of it that came into the cache.
 */
filled: Bytes, 
/**
 * Bytes of it that a start needs, as [`FileReport::needed`].
 */
needed: Bytes | null, 
/**
 * Its part of the file's waiting time, by bytes of each request.
 */
waiting: Nanos, };

export type Shoe = { 
/**
 * Bytes that the program asks for.
 */
request: number, 
/**
 * Bytes to ask for instead, all in all: a power of two.
 */
ask: number, 
/**
 * The part of these for what the place keeps there, if the rest is as large as now: `ask` less `over`.
 */
payload: number, 
/**
 * Bytes by which the request is larger than a power of two.
 */
over: number, 
/**
 * Blocks made.
 */
blocks: number, 
/**
 * Most of them live at a time.
 */
most_live: number, };

export type SiteSlop = { 
/**
 * Blocks made.
 */
blocks: number, 
/**
 * Bytes asked for.
 */
requested_bytes: Bytes, 
/**
 * Bytes given and not asked for.
 */
slop_bytes: Bytes, 
/**
 * Different sizes asked for.
 */
sizes: number, 
/**
 * Where, innermost first.
 */
site: Array<HeapFrame>, };

export type Slop = { 
/**
 * Of all blocks.
 */
slop_bytes: Bytes, 
/**
 * Of what was live when most was asked for.
 */
peak_slop_bytes: Bytes, };

export type SlopReport = { 
/**
 * Each process that allocated.
 */
processes: Array<ProcessSlop>, 
/**
 * All doubts.
 */
warnings: Array<Warning>, };

export type SlopSource = "recorded" | "modelled";

export type StartsFrom = "symbols" | "unwind" | "exports";

export type StateComparison = { 
/**
 * Name of the variant before.
 */
before_name: string, 
/**
 * Name of the variant after.
 */
after_name: string, 
/**
 * Cache state.
 */
state: CacheState, 
/**
 * Accepted timed runs before.
 */
before_runs: number, 
/**
 * Accepted timed runs after.
 */
after_runs: number, 
/**
 * Median wall time before.
 */
before_s: Estimate, 
/**
 * Median wall time after.
 */
after_s: Estimate, 
/**
 * after / before: ratio of medians with its BCa bootstrap interval.
 */
ratio: Estimate, 
/**
 * Two-sided permutation p: of labels, or of the signs of pairs where both are variants of one recording.
 */
p: number, 
/**
 * Figures beside the wall time.
 */
metrics: Array<MetricChange>, };

export type Statistics = { 
/**
 * [`REPORT_VERSION`].
 */
version: number, 
/**
 * One per variant and state with at least one accepted timed run; by variant, then hot, app, boot, cold.
 */
cells: Array<Cell>, 
/**
 * States of one variant against its hot (or else fastest) state, and variants of one state against variant 0.
 * With `--aa` variants are the same program: see `noise_floor` instead.
 */
contrasts: Array<Contrast>, 
/**
 * (cold2-hot2)-(cold1-hot1): by how much a variant changes what a cold cache costs.
 */
differences: Array<Difference>, 
/**
 * What tracing cost, per variant and state that has traced runs.
 */
overhead: Array<Overhead>, 
/**
 * What this machine can tell apart, from a recording of the same program against itself.
 */
noise_floor: NoiseFloor | null, 
/**
 * Timed and traced runs that do not count.
 */
rejected: Array<Rejected>, 
/**
 * Doubts about the figures above.
 */
warnings: Array<Warning>, };

export type Swing = { 
/**
 * Number of buffers.
 */
buffers: number, 
/**
 * Times that one grew after it had become smaller.
 */
turns: number, 
/**
 * Calls of `realloc` from the first time on that a buffer became smaller.
 */
calls: number, 
/**
 * Bytes that these asked for.
 */
allocated_bytes: Bytes, 
/**
 * What was copied: what both sizes have, of the calls that left their place.
 */
copied_bytes: Bytes, 
/**
 * Smallest size.
 */
least_bytes: Bytes, 
/**
 * Largest size.
 */
most_bytes: Bytes, 
/**
 * Where the last growth was asked for, innermost first.
 */
site: Array<HeapFrame>, };

export type SyncReport = { 
/**
 * Its path.
 */
path: string, 
/**
 * How often.
 */
count: number, 
/**
 * How long all syncs took together.
 */
took: Nanos, };

export type Totals = { 
/**
 * Bytes that came into the page cache.
 */
filled: Bytes, 
/**
 * Bytes that read requests brought.
 */
read_from_disk: Bytes, 
/**
 * Read requests.
 */
requests: number, 
/**
 * Those for metadata.
 */
metadata_requests: number, 
/**
 * Read requests that did not begin where the one before (of the program, on the same disk) ended.
 */
seeks: number, 
/**
 * Distance of all seeks together.
 */
seek_distance: Bytes, 
/**
 * Time in which at least one read request was in flight, from the page-cache fill until done.
 */
waiting: Nanos, 
/**
 * Read requests that could not be attributed to a file or to metadata.
 */
unattributed_requests: number, 
/**
 * Share (0..1) of the read requests that were attributed; 1 if there were none.
 */
attributed_share: number, 
/**
 * Write requests of the tree.
 */
writes: number, 
/**
 * Bytes that they wrote.
 */
written: Bytes, 
/**
 * Requests of other processes meanwhile.
 */
others_requests: number, 
/**
 * Read requests of the tree whose end was not seen.
 */
unfinished_requests: number, 
/**
 * Bytes that a start needs, in whole pages, of the files that came into the cache and of which that is known,
 * without the file systems' metadata; `None`: no run without read-ahead told.
 */
needed: Bytes | null, 
/**
 * Bytes that came into the cache of these files: what `needed` is a share of.
 */
needed_of: Bytes | null, 
/**
 * Files of which the need is unknown because other processes map them.
 */
need_unknown_files: number, };

export type TouchByteReport = { 
/**
 * How many.
 */
bytes: Bytes, 
/**
 * Pages that they lie on.
 */
pages: number, };

export type TouchEngine = "page" | "probe" | "function" | "byte";

export type TouchEngineReport = { 
/**
 * Which engine.
 */
engine: TouchEngine, 
/**
 * What it tells apart and what it cannot, as one sentence.
 */
precision: string, 
/**
 * What it could not know in this run, one sentence each.
 */
cannot: Array<string>, };

export type TouchFileReport = { 
/**
 * Its path; bytes that are not UTF-8 are shown as U+FFFD.
 */
path: string, 
/**
 * Whose it is.
 */
owner: Owner, 
/**
 * What it is.
 */
kind: FileKind, 
/**
 * Its size.
 */
size: Bytes, 
/**
 * As [`Totals::read`].
 */
read: Bytes | null, 
/**
 * As [`Totals::needed`].
 */
needed: Bytes | null, 
/**
 * As [`Totals::resident`].
 */
resident: Bytes | null, 
/**
 * As [`Totals::touched`].
 */
touched: TouchByteReport | null, 
/**
 * Its functions, if they were watched.
 */
functions: FunctionReport | null, 
/**
 * Its ELF sections, by place.
 */
sections: Array<TouchSectionReport>, };

export type TouchReport = { 
/**
 * [`REPORT_VERSION`].
 */
version: number, 
/**
 * The engines that looked, and how precise each is.
 */
engines: Array<TouchEngineReport>, 
/**
 * The sums.
 */
totals: TouchTotals, 
/**
 * Files, those that need most first.
 */
files: Array<TouchFileReport>, };

export type TouchSectionReport = { 
/**
 * `.text`
 */
name: string, 
/**
 * Where it begins in the file.
 */
offset: number, 
/**
 * Its size in the file.
 */
size: Bytes, 
/**
 * As [`Totals::read`]; pages are cut at the section's borders.
 */
read: Bytes | null, 
/**
 * As [`Totals::needed`].
 */
needed: Bytes | null, 
/**
 * Bytes of it that were touched, if every byte was watched.
 */
touched: Bytes | null, 
/**
 * Functions of it that were called, if they were watched.
 */
called: number | null, };

export type TouchTotals = { 
/**
 * Bytes that a cold start brings into memory with the usual read-ahead.
 */
read: Bytes | null, 
/**
 * Bytes that it asks for, in whole pages.
 */
needed: Bytes | null, 
/**
 * Bytes that were in the cache after a start, in whole pages.
 */
resident: Bytes | null, 
/**
 * Bytes of mapped files that instructions and system calls touch.
 */
touched: TouchByteReport | null, 
/**
 * Functions, and what they would take.
 */
functions: FunctionReport | null, };

export type TraceInfo = { 
/**
 * `perf`, `tracefs` or `probe`.
 */
engine: string, 
/**
 * Records received.
 */
records: number, 
/**
 * Records that the kernel could not deliver.
 */
lost: number, 
/**
 * Bytes that the engine moved.
 */
bytes: Bytes, 
/**
 * What this engine cannot know, one sentence each.
 */
cannot: Array<string>, };

export type Units = number;

export type Warning = { 
/**
 * Its kind.
 */
kind: WarningKind, 
/**
 * One sentence, with the object and the figures.
 */
text: string, 
/**
 * What to do about it, chosen from what the user already did.
 */
hint?: string, 
/**
 * The run that it is about, if it is about one.
 */
run?: RunId, };

export type WarningKind = "drift" | "autocorrelation" | "outlier" | "not-in-state" | "busy-machine" | "read-ahead"
  | "too-few-runs" | "precision" | "lost-records" | "overhead" | "no-control" | "stays-resident" | "unattributed"
  | "engine" | "failed-run" | "leftover" | "note";

export type Waste = { 
/**
 * The allocator that is modelled.
 */
model: Model, 
/**
 * Given and not asked for, all blocks.
 */
bytes: Bytes, 
/**
 * The same of the most blocks of each size that were live at a time.
 */
most_live_bytes: Bytes, };

export type WatchCheckpoint = { 
/**
 * The mark's name; the second of the same name is `NAME (2)`.
 */
name: string, 
/**
 * Seconds since the start of the watch.
 */
at_s: number, 
/**
 * The sums.
 */
total: WatchTotal, };

export type WatchHead = { 
/**
 * [`SCHEMA`].
 */
schema: string, 
/**
 * Version of thaw.
 */
thaw_version: string, 
/**
 * What was started; empty: it ran already.
 */
command: Array<string>, 
/**
 * Whose memory.
 */
whose: WatchWhose, 
/**
 * When that process started, in clock ticks since boot: with its number that names it for good.
 */
start_ticks: number, 
/**
 * CLOCK_MONOTONIC at the start of the watch.
 */
began_ns: number, 
/**
 * Nanoseconds since 1970 at the same moment.
 */
created_unix_ns: number, };

export type WatchPair = { 
/**
 * Its name.
 */
name: string, 
/**
 * In the first.
 */
first: WatchTotal | null, 
/**
 * In the second.
 */
second: WatchTotal | null, };

export type WatchTotal = { 
/**
 * Processes.
 */
processes: number, 
/**
 * Sum of the resident sizes: shared pages count more than once.
 */
rss: Bytes, 
/**
 * Sum of the proportional sizes: what the program has of the machine's memory.
 */
pss: Bytes, 
/**
 * Sum of the unique sizes.
 */
uss: Bytes, 
/**
 * Swapped out.
 */
swap: Bytes, };

export type WatchWhose = { "program": number } | { "children-of": number };

export type WhatIf = { 
/**
 * The allocator that is modelled.
 */
model: Model, 
/**
 * Of all blocks.
 */
slop_bytes: Bytes, 
/**
 * Of what was live when most was asked for.
 */
peak_slop_bytes: Bytes, };

export type Window = { 
/**
 * First moment.
 */
since_ns: Nanos, 
/**
 * Last moment; `None`: the end of the recording.
 */
until_ns: Nanos | null, };
