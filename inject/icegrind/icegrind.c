/* icegrind: a Valgrind tool that says which bytes of its files a program touches, in the order of first touch.

   Copyright (C) the thaw authors. This program is free software; you can redistribute it and/or modify it under the terms of
   the GNU General Public License as published by the Free Software Foundation; either version 2 of the License, or (at your
   option) any later version. It is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the
   implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the file LICENSE for more details.

   Every byte of every mapped file is noted once: code when a straight-line piece of it runs first, data when an instruction or
   a system call reads or writes it first. What read-like system calls bring from files is noted as well, each call. One output
   file per process image; README.md tells their format. Not for timing, and not for interpreting: thaw's Rust side does that. */

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

#define FILE_PAGE_SHIFT 12
#define FILE_PAGE ((UWord)1 << FILE_PAGE_SHIFT)

/* How a byte was touched; the letters stand in the output. */
typedef enum { Execute = 'X', Read = 'R', Write = 'W' } Kind;

/* ---- Files, and which of their bytes were touched ---- */

/* A page of a file: one bit per byte. The fast path reads eight bytes at a time, up to seven behind the last. */
typedef struct {
   VgHashNode node; /* key: number of the page in its file */
   UChar bits[FILE_PAGE / 8 + 8];
} Page;

typedef struct {
   VgHashNode node; /* key: mixed from dev and ino */
   ULong dev, ino, size;
   HChar* name;
   UInt id;
   UInt announced; /* the output that knows it; outputs count from 1 */
   VgHashTable* pages;
} File;

static VgHashTable* files;
static UInt file_count;

static UWord file_key(ULong dev, ULong ino) { return (UWord)(ino * 0x9e3779b1u ^ dev); }

static Word file_cmp(const void* one, const void* other) {
   const File *a = one, *b = other;
   return a->dev != b->dev || a->ino != b->ino;
}

/* The file, if the name still is the name of it. An inode number that another file has got since is another file. */
static File* known_file(ULong dev, ULong ino, const HChar* name) {
   File wanted = { .node = { .key = file_key(dev, ino) }, .dev = dev, .ino = ino };
   File* file = VG_(HT_gen_lookup)(files, &wanted, file_cmp);
   struct vg_stat now;
   if (file == NULL || VG_(strcmp)(file->name, name) == 0)
      return file;
   SysRes there = VG_(stat)(file->name, &now);
   if (!sr_isError(there) && now.dev == dev && now.ino == ino)
      return file; /* a second name */
   VG_(HT_gen_remove)(files, file, file_cmp); /* what was noted keeps its number */
   return NULL;
}

static File* file_of(ULong dev, ULong ino, const HChar* name) {
   File* file = known_file(dev, ino, name);
   struct vg_stat now;
   if (file != NULL)
      return file;
   file = VG_(calloc)("icegrind.file", 1, sizeof *file);
   file->node.key = file_key(dev, ino);
   file->dev = dev;
   file->ino = ino;
   SysRes there = VG_(stat)(name, &now);
   file->size = !sr_isError(there) && now.dev == dev && now.ino == ino ? (ULong)now.size : 0;
   file->name = VG_(strdup)("icegrind.name", name);
   file->id = file_count++;
   file->pages = VG_(HT_construct)("icegrind.pages");
   VG_(HT_add_node)(files, file);
   return file;
}

static Page* page_of(File* file, UWord number) {
   Page* page = VG_(HT_lookup)(file->pages, number);
   if (page == NULL) {
      page = VG_(calloc)("icegrind.page", 1, sizeof *page);
      page->node.key = number;
      VG_(HT_add_node)(file->pages, page);
   }
   return page;
}

/* ---- Output ---- */

/* Of the core, not declared for tools: what is executed, open. */
extern Int VG_(cl_exec_fd);

static const HChar* out_directory = NULL;
static Int out_fd = -1;
static UInt out_number = 0;
static HChar* program_name;
static UChar buffer[1 << 16];
static UInt buffered;

static ULong last_ns;   /* time of the last record with one */
static ULong last_end;  /* behind the last piece */
static Int last_tid;    /* thread of the last record */
static Int current_tid; /* thread that runs */

/* The piece that may still grow. */
static struct { File* file; ULong offset, len, at_ns; Kind kind; Int tid; } growing;

static ULong now_ns(void) {
   struct vki_timespec now;
   VG_(clock_gettime)(&now, VKI_CLOCK_MONOTONIC);
   return (ULong)now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void write_out(void) {
   UInt done = 0;
   while (done < buffered && out_fd >= 0) {
      Int wrote = VG_(write)(out_fd, buffer + done, buffered - done);
      if (wrote > 0) {
         done += wrote;
      } else if (wrote != -VKI_EINTR && wrote != -VKI_EAGAIN) {
         VG_(umsg)("icegrind: cannot write to %s: error %d\n", out_directory, -wrote);
         VG_(close)(out_fd);
         out_fd = -1;
      }
   }
   buffered = 0;
}

static void room_for(UInt bytes) {
   if (buffered + bytes > sizeof buffer)
      write_out();
}

static void put_byte(UChar byte) { buffer[buffered++] = byte; }

/* Seven bits at a time, the low ones first. */
static void put(ULong number) {
   for (; number >= 0x80; number >>= 7)
      put_byte((number & 0x7f) | 0x80);
   put_byte(number);
}

static void put_name(const HChar* name) {
   UInt length = VG_(strlen)(name);
   put(length);
   for (UInt i = 0; i < length; i++) {
      room_for(1);
      put_byte(name[i]);
   }
}

static void put_time(ULong at_ns) {
   /* The clock does not go back, but pieces are written when they have grown. */
   put(at_ns > last_ns ? at_ns - last_ns : 0);
   if (at_ns > last_ns)
      last_ns = at_ns;
}

static void put_thread(Int tid) {
   if (tid != last_tid) {
      put_byte('T');
      put(tid);
      last_tid = tid;
   }
}

static void announce(File* file) {
   if (file->announced == out_number)
      return;
   file->announced = out_number;
   room_for(64);
   put_byte('F');
   put(file->id);
   put(file->dev);
   put(file->ino);
   put(file->size);
   put_name(file->name);
}

/* Ends the growing piece. */
static void end_piece(void) {
   if (growing.len == 0)
      return;
   announce(growing.file);
   room_for(64);
   put_thread(growing.tid);
   put_byte(growing.kind);
   put(growing.file->id);
   Long step = (Long)(growing.offset - last_end);
   put(((ULong)step << 1) ^ (ULong)(step >> 63));
   put(growing.len);
   put_time(growing.at_ns);
   last_end = growing.offset + growing.len;
   growing.len = 0;
}

static void flush(void) {
   end_piece();
   if (buffered > 0)
      write_out();
}

/* A file of its own for this process image: a program that executes another keeps its number, so names are tried. */
static void open_output(void) {
   HChar name[VKI_PATH_MAX];
   out_number++;
   last_end = 0;
   last_tid = current_tid = VG_(gettid)();
   last_ns = now_ns();
   for (UInt image = 0; out_fd < 0; image++) {
      VG_(snprintf)(name, sizeof name, "%s/icegrind.%d.%u", out_directory, VG_(getpid)(), image);
      struct vg_stat there;
      if (!sr_isError(VG_(stat)(name, &there)))
         continue;
      out_fd = VG_(fd_open)(name, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY | VKI_O_APPEND, 0600);
      if (out_fd < 0)
         return;
   }
   static const HChar magic[8] = { 't', 'h', 'a', 'w', 'i', 'c', 'e', '1' };
   for (UInt i = 0; i < sizeof magic; i++)
      put_byte(magic[i]);
   put(VG_(getpid)());
   put(VG_(getppid)());
   put(last_tid);
   put(last_ns);
   put_name(program_name);
   write_out();
}

/* ---- Noting touches ---- */

/* Bytes of a file that nobody touched before. */
static void note(File* file, ULong offset, ULong len, Kind kind) {
   if (growing.len > 0 && growing.file == file && growing.offset + growing.len == offset && growing.kind == kind
       && growing.tid == current_tid) {
      growing.len += len;
      return;
   }
   end_piece();
   growing.file = file;
   growing.offset = offset;
   growing.len = len;
   growing.kind = kind;
   growing.tid = current_tid;
   growing.at_ns = now_ns();
}

static void touch_page(File* file, Page* page, UWord first, UWord count, Kind kind) {
   ULong base = (ULong)page->node.key << FILE_PAGE_SHIFT;
   UWord begin = 0, length = 0;
   for (UWord at = first; at < first + count; at++) {
      UChar bit = 1 << (at & 7);
      if (page->bits[at >> 3] & bit)
         continue;
      page->bits[at >> 3] |= bit;
      if (length > 0 && begin + length == at) {
         length++;
         continue;
      }
      if (length > 0)
         note(file, base + begin, length, kind);
      begin = at;
      length = 1;
   }
   if (length > 0)
      note(file, base + begin, length, kind);
}

static void touch_file(File* file, ULong offset, UWord len, Kind kind) {
   while (len > 0) {
      UWord inside = offset & (FILE_PAGE - 1);
      UWord count = len < FILE_PAGE - inside ? len : FILE_PAGE - inside;
      touch_page(file, page_of(file, (UWord)(offset >> FILE_PAGE_SHIFT)), inside, count, kind);
      offset += count;
      len -= count;
   }
}

/* ---- Which addresses are files ---- */

/* A mapping of a file; `end` is behind it. Sorted, disjoint, whole pages. */
typedef struct { Addr start, end; File* file; ULong offset; } Map;

static Map* maps;
static UWord map_count, map_room;

/* By page number: how many pages of mapped files, and pages before one, have this place. Zero is what the instrumented code
   looks for: it tells without a call that an access touches no file. Accesses that begin on the page before one may reach it. */
#define PLACES ((UWord)1 << 20)
static UShort mapped_pages[PLACES];

/* The bits of a page by its address, for the pages that were asked for last; no file: all are set. */
#define CACHED 1024
static struct { UWord page; const UChar* bits; } cache[CACHED];
static UChar all_set[FILE_PAGE / 8 + 8];

static void forget_cache(void) {
   for (UWord i = 0; i < CACHED; i++)
      cache[i].page = ~(UWord)0;
}

/* Adds to the counts of the pages of a mapping and of the page before it. A page in the middle counts for both its reasons. */
static void count_pages(Addr start, Addr end, Int step) {
   for (UWord page = (start >> FILE_PAGE_SHIFT) - 1; page != end >> FILE_PAGE_SHIFT; page++)
      mapped_pages[page & (PLACES - 1)] += step;
}

/* Number of the first mapping that ends behind an address. */
static UWord map_behind(Addr a) {
   UWord low = 0, high = map_count;
   while (low < high) {
      UWord middle = (low + high) / 2;
      if (maps[middle].end > a)
         high = middle;
      else
         low = middle + 1;
   }
   return low;
}

static void insert_map(UWord at, Map map) {
   if (map_count == map_room) {
      map_room = map_room * 2 + 64;
      maps = VG_(realloc)("icegrind.maps", maps, map_room * sizeof *maps);
   }
   VG_(memmove)(maps + at + 1, maps + at, (map_count - at) * sizeof *maps);
   maps[at] = map;
   map_count++;
   count_pages(map.start, map.end, 1);
}

static void remove_map(UWord at) {
   count_pages(maps[at].start, maps[at].end, -1);
   map_count--;
   VG_(memmove)(maps + at, maps + at + 1, (map_count - at) * sizeof *maps);
}

/* Forgets the mappings in a range, cutting those that reach over its ends. */
static void clear_maps(Addr start, Addr end) {
   UWord at = map_behind(start);
   while (at < map_count && maps[at].start < end) {
      Map map = maps[at];
      remove_map(at);
      if (map.start < start) {
         Map head = { map.start, start, map.file, map.offset };
         insert_map(at++, head);
      }
      if (map.end > end) {
         Map tail = { end, map.end, map.file, map.offset + (end - map.start) };
         insert_map(at++, tail);
      }
   }
}

/* Asks Valgrind anew what lies in a range: the one answer to every way in which mappings change. */
static void sync_maps(Addr start, SizeT len) {
   Addr end = VG_PGROUNDUP(start + len);
   start = VG_PGROUNDDN(start);
   clear_maps(start, end);
   Addr a = start;
   while (a < end) {
      NSegment const* segment = VG_(am_find_nsegment)(a);
      if (segment == NULL) {
         a += FILE_PAGE;
         continue;
      }
      Addr until = segment->end + 1 < end && segment->end + 1 > a ? segment->end + 1 : end;
      const HChar* name = VG_(am_get_filename)(segment);
      if (segment->kind == SkFileC && VKI_S_ISREG(segment->mode) && name != NULL) {
         Map map = { a, until, file_of(segment->dev, segment->ino, name), segment->offset + (a - segment->start) };
         insert_map(map_behind(a), map);
      }
      a = until;
   }
   forget_cache();
}

static void touch(Addr a, UWord len, Kind kind) {
   Addr end = a + len < a ? ~(Addr)0 : a + len;
   for (UWord at = map_behind(a); at < map_count && maps[at].start < end; at++) {
      Map map = maps[at];
      Addr from = map.start > a ? map.start : a;
      Addr until = map.end < end ? map.end : end;
      touch_file(map.file, map.offset + (from - map.start), until - from, kind);
   }
}

static void fill_cache(Addr a) {
   UWord page = a >> FILE_PAGE_SHIFT, at = map_behind(a);
   const UChar* bits = all_set;
   if (at < map_count && maps[at].start <= a)
      bits = page_of(maps[at].file, (UWord)((maps[at].offset + (a - maps[at].start)) >> FILE_PAGE_SHIFT))->bits;
   cache[page % CACHED].page = page;
   cache[page % CACHED].bits = bits;
}

/* ---- What the instrumented code calls ---- */

/* Sizes that one load of 64 bits, shifted by up to seven, can tell. */
#define SHORT_ACCESS 56

static inline Bool all_touched(Addr a, UWord size) {
   UWord inside = a & (FILE_PAGE - 1), page = a >> FILE_PAGE_SHIFT;
   if (size > SHORT_ACCESS || inside + size > FILE_PAGE || cache[page % CACHED].page != page)
      return False;
   ULong bits;
   __builtin_memcpy(&bits, cache[page % CACHED].bits + (inside >> 3), sizeof bits);
   ULong mask = ((ULong)1 << size) - 1;
   return ((bits >> (inside & 7)) & mask) == mask;
}

static __attribute__((noinline)) void touch_new(Addr a, UWord size, Kind kind) {
   touch(a, size, kind);
   fill_cache(a);
}

static VG_REGPARM(2) void data_read(Addr a, UWord size) {
   if (!all_touched(a, size))
      touch_new(a, size, Read);
}

static VG_REGPARM(2) void data_written(Addr a, UWord size) {
   if (!all_touched(a, size))
      touch_new(a, size, Write);
}

/* A straight-line piece of code: once its first instruction begins, all of it runs (but for a fault). */
typedef struct { Addr start; UWord len; } Range;
typedef struct { UChar done; UInt ranges; Range range[]; } Piece;

static VG_REGPARM(1) void code_runs(Piece* piece) {
   piece->done = 1;
   for (UInt i = 0; i < piece->ranges; i++)
      touch(piece->range[i].start, piece->range[i].len, Execute);
}

/* ---- Instrumentation ---- */

/* Pieces live as long as their translations may, and are small: they are never given back. */
static void* for_ever(SizeT bytes) {
   static UChar* block;
   static SizeT left;
   bytes = (bytes + 7) & ~(SizeT)7;
   if (bytes > left) {
      left = bytes > 1 << 16 ? bytes : 1 << 16;
      block = VG_(malloc)("icegrind.pieces", left);
   }
   void* here = block;
   block += bytes;
   left -= bytes;
   return here;
}

static Bool code_is_new(Addr a, UWord len) {
   while (len > 0) {
      UWord at = map_behind(a);
      if (at == map_count || maps[at].start >= a + len)
         return False;
      if (maps[at].start > a) {
         len -= maps[at].start - a;
         a = maps[at].start;
      }
      ULong offset = maps[at].offset + (a - maps[at].start);
      Page* page = VG_(HT_lookup)(maps[at].file->pages, (UWord)(offset >> FILE_PAGE_SHIFT));
      UWord inside = (UWord)offset & (FILE_PAGE - 1);
      if (page == NULL || !(page->bits[inside >> 3] & (1 << (inside & 7))))
         return True;
      a++;
      len--;
   }
   return False;
}

/* The piece that begins at a statement; NULL: nothing in it is new. It ends behind the instruction that may leave the block. */
static Piece* piece_from(const IRSB* in, Int first) {
   Range range[256]; /* more than a block has instructions */
   UInt ranges = 0;
   Bool leaves = False, new = False;
   for (Int i = first; i < in->stmts_used; i++) {
      IRStmt* statement = in->stmts[i];
      leaves |= statement->tag == Ist_Exit;
      if (statement->tag != Ist_IMark || statement->Ist.IMark.len == 0)
         continue;
      if (leaves)
         break;
      Addr a = statement->Ist.IMark.addr;
      UWord len = statement->Ist.IMark.len;
      new |= code_is_new(a, len);
      if (ranges > 0 && range[ranges - 1].start + range[ranges - 1].len == a) {
         range[ranges - 1].len += len;
      } else {
         tl_assert(ranges < sizeof range / sizeof *range);
         range[ranges].start = a;
         range[ranges++].len = len;
      }
   }
   if (!new)
      return NULL;
   Piece* piece = for_ever(sizeof(Piece) + ranges * sizeof(Range));
   piece->done = 0;
   piece->ranges = ranges;
   VG_(memcpy)(piece->range, range, ranges * sizeof(Range));
   return piece;
}

static IRExpr* assign(IRSB* out, IRType type, IRExpr* value) {
   IRTemp temp = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

static void call_if(IRSB* out, IRExpr* guard, Int registers, const HChar* name, void* function, IRExpr** arguments) {
   IRDirty* call = unsafeIRDirty_0_N(registers, name, VG_(fnptr_to_fnentry)(function), arguments);
   call->guard = guard;
   addStmtToIRSB(out, IRStmt_Dirty(call));
}

static void add_code(IRSB* out, Piece* piece) {
   IRExpr* done = assign(out, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, mkIRExpr_HWord((HWord)&piece->done)));
   IRExpr* first = assign(out, Ity_I1, IRExpr_Binop(Iop_CmpEQ8, done, IRExpr_Const(IRConst_U8(0))));
   call_if(out, first, 1, "code_runs", code_runs, mkIRExprVec_1(mkIRExpr_HWord((HWord)piece)));
}

/* `guard`: the access happens only then; NULL: always. */
static void add_data(IRSB* out, IRExpr* address, SizeT size, Kind kind, IRExpr* guard) {
   Bool wide = sizeof(Addr) == 8;
   IRType word = wide ? Ity_I64 : Ity_I32;
   /* Twice the page number's low bits: the place in a table of 16-bit counts. */
   IRExpr* shifted = assign(out, word, IRExpr_Binop(wide ? Iop_Shr64 : Iop_Shr32, address, IRExpr_Const(IRConst_U8(FILE_PAGE_SHIFT - 1))));
   IRExpr* place = assign(out, word, IRExpr_Binop(wide ? Iop_And64 : Iop_And32, shifted, mkIRExpr_HWord((PLACES - 1) << 1)));
   IRExpr* count = assign(out, word, IRExpr_Binop(wide ? Iop_Add64 : Iop_Add32, place, mkIRExpr_HWord((HWord)mapped_pages)));
   IRExpr* pages = assign(out, Ity_I16, IRExpr_Load(Iend_LE, Ity_I16, count));
   IRExpr* any = assign(out, Ity_I1, IRExpr_Binop(Iop_CmpNE16, pages, IRExpr_Const(IRConst_U16(0))));
   if (guard != NULL)
      any = assign(out, Ity_I1, IRExpr_Binop(Iop_And1, any, guard));
   Bool writes = kind == Write;
   call_if(out, any, 2, writes ? "data_written" : "data_read", writes ? (void*)data_written : (void*)data_read,
           mkIRExprVec_2(address, mkIRExpr_HWord(size)));
}

/* Adds what a statement touches before it happens: a load that faults has asked for its page. */
static void add_accesses(IRSB* out, IRStmt* statement) {
   switch (statement->tag) {
      case Ist_WrTmp: {
         IRExpr* value = statement->Ist.WrTmp.data;
         if (value->tag == Iex_Load)
            add_data(out, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), Read, NULL);
         break;
      }
      case Ist_Store: {
         IRType type = typeOfIRExpr(out->tyenv, statement->Ist.Store.data);
         add_data(out, statement->Ist.Store.addr, sizeofIRType(type), Write, NULL);
         break;
      }
      case Ist_LoadG: {
         IRLoadG* load = statement->Ist.LoadG.details;
         IRType wide, narrow;
         typeOfIRLoadGOp(load->cvt, &wide, &narrow);
         add_data(out, load->addr, sizeofIRType(narrow), Read, load->guard);
         break;
      }
      case Ist_StoreG: {
         IRStoreG* store = statement->Ist.StoreG.details;
         IRType type = typeOfIRExpr(out->tyenv, store->data);
         add_data(out, store->addr, sizeofIRType(type), Write, store->guard);
         break;
      }
      case Ist_CAS: {
         IRCAS* cas = statement->Ist.CAS.details;
         SizeT size = sizeofIRType(typeOfIRExpr(out->tyenv, cas->dataLo)) * (cas->dataHi == NULL ? 1 : 2);
         add_data(out, cas->addr, size, Read, NULL);
         break;
      }
      case Ist_LLSC: {
         IRExpr* stored = statement->Ist.LLSC.storedata;
         IRType type = stored == NULL ? typeOfIRTemp(out->tyenv, statement->Ist.LLSC.result) : typeOfIRExpr(out->tyenv, stored);
         add_data(out, statement->Ist.LLSC.addr, sizeofIRType(type), stored == NULL ? Read : Write, NULL);
         break;
      }
      case Ist_Dirty: {
         IRDirty* call = statement->Ist.Dirty.details;
         if (call->mFx != Ifx_None)
            add_data(out, call->mAddr, call->mSize, call->mFx == Ifx_Write ? Write : Read, call->guard);
         break;
      }
      default:
         break;
   }
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout, const VexGuestExtents* extents,
                        const VexArchInfo* host, IRType guest_word, IRType host_word) {
   IRSB* out = deepCopyIRSBExceptStmts(in);
   Bool begins = True;
   for (Int i = 0; i < in->stmts_used; i++) {
      IRStmt* statement = in->stmts[i];
      if (statement->tag == Ist_NoOp)
         continue;
      if (statement->tag == Ist_IMark && begins && statement->Ist.IMark.len > 0) {
         Piece* piece = piece_from(in, i);
         addStmtToIRSB(out, statement);
         if (piece != NULL)
            add_code(out, piece);
         begins = False;
         continue;
      }
      begins |= statement->tag == Ist_Exit;
      add_accesses(out, statement);
      addStmtToIRSB(out, statement);
   }
   return out;
}

/* ---- Mappings and system calls ---- */

static void mapped_at_start(Addr a, SizeT len, Bool r, Bool w, Bool x, ULong di) { sync_maps(a, len); }
static void mapped(Addr a, SizeT len, Bool r, Bool w, Bool x, ULong di) { sync_maps(a, len); }
static void unmapped(Addr a, SizeT len) { sync_maps(a, len); }
static void moved(Addr from, Addr to, SizeT len) {
   sync_maps(from, len);
   sync_maps(to, len);
}

static void runs_now(void) { current_tid = VG_(gettid)(); }

static void begins_to_run(ThreadId thread, ULong blocks) { runs_now(); }

static void given_to_kernel(CorePart part, ThreadId thread, const HChar* what, Addr a, SizeT size) {
   /* Valgrind also says that it translates code, which nobody may run. */
   if (part != Vg_CoreTranslate)
      touch(a, size, Read);
}

static void string_given_to_kernel(CorePart part, ThreadId thread, const HChar* what, Addr a) {
   /* The program may have given anything: only what may be read is looked at. */
   Addr end = a;
   while (VG_(am_is_valid_for_client)(end, 1, VKI_PROT_READ)) {
      Addr behind = (end | (FILE_PAGE - 1)) + 1;
      while (end != behind && *(const HChar*)end != 0)
         end++;
      if (end != behind) {
         touch(a, end + 1 - a, Read);
         return;
      }
   }
   touch(a, end - a, Read);
}

static void written_by_kernel(CorePart part, ThreadId thread, Addr a, SizeT size) { touch(a, size, Write); }

/* A system call brought `len` bytes that end at `end` of what is open as `fd`. */
static void read_from(UWord fd, Off64T end, UWord len) {
   struct vg_stat now;
   HChar link[64], name[VKI_PATH_MAX];
   if (end < 0 || (ULong)end < len || VG_(fstat)((Int)fd, &now) != 0 || !VKI_S_ISREG(now.mode))
      return;
   VG_(sprintf)(link, "/proc/self/fd/%d", (Int)fd);
   SSizeT length = VG_(readlink)(link, name, sizeof name - 1);
   if (length <= 0)
      return;
   name[length] = 0;
   File* file = file_of(now.dev, now.ino, name);
   end_piece();
   announce(file);
   room_for(64);
   put_thread(current_tid);
   put_byte('S');
   put(file->id);
   put((ULong)end - len);
   put(len);
   put_time(now_ns());
}

static Off64T place_of(UWord fd) { return VG_(lseek)((Int)fd, 0, VKI_SEEK_CUR); }

static Bool executes(UInt number) {
#ifdef __NR_execveat
   if (number == __NR_execveat)
      return True;
#endif
   return number == __NR_execve;
}

static void before_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count) {
   if (executes(number)) {
      end_piece();
      room_for(16);
      put_byte('C');
      put_time(now_ns());
   }
   /* What waits in a system call may be killed there, and a program that is executed takes the buffer with it. */
   flush();
}

static void after_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count, SysRes result) {
   runs_now();
   if (executes(number)) {
      /* It would not come back if it had worked. */
      end_piece();
      room_for(16);
      put_byte('c');
      put(sr_isError(result) ? sr_Err(result) : 0);
   }
   if (sr_isError(result) || sr_Res(result) == 0)
      return;
   UWord len = sr_Res(result);
   switch (number) {
      case __NR_read:
      case __NR_readv:
         read_from(arguments[0], place_of(arguments[0]), len);
         break;
      case __NR_pread64:
      case __NR_preadv: {
         /* 32 bits take two arguments for a place. */
         ULong at = sizeof(UWord) == 8 ? arguments[3] : (ULong)arguments[3] | (ULong)arguments[4] << 16 << 16;
         read_from(arguments[0], at + len, len);
         break;
      }
      case __NR_preadv2: {
         ULong at = sizeof(UWord) == 8 ? arguments[3] : (ULong)arguments[3] | (ULong)arguments[4] << 16 << 16;
         read_from(arguments[0], at == ~(ULong)0 ? place_of(arguments[0]) : (Off64T)(at + len), len);
         break;
      }
      case __NR_sendfile: {
         Word* at = (Word*)arguments[2];
         read_from(arguments[1], at != NULL ? *at : place_of(arguments[1]), len);
         break;
      }
#ifdef __NR_sendfile64
      case __NR_sendfile64: {
         Long* at = (Long*)arguments[2];
         read_from(arguments[1], at != NULL ? *at : place_of(arguments[1]), len);
         break;
      }
#endif
      case __NR_splice:
      case __NR_copy_file_range: {
         Long* at = (Long*)arguments[1];
         read_from(arguments[0], at != NULL ? *at : place_of(arguments[0]), len);
         break;
      }
      default:
         break;
   }
}

static void before_fork(ThreadId thread) { flush(); }

static void child_after_fork(ThreadId thread) {
   if (out_fd >= 0)
      VG_(close)(out_fd);
   out_fd = -1;
   open_output();
}

/* ---- The tool ---- */

static Bool option(const HChar* argument) { return VG_STR_CLO(argument, "--icegrind-out", out_directory); }

static void usage(void) { VG_(printf)("    --icegrind-out=<dir>      directory for the output, one file per process image\n"); }

static void no_usage(void) { VG_(printf)("    (none)\n"); }

static void begin(void) {
   HChar link[64], name[VKI_PATH_MAX];
   if (out_directory == NULL)
      VG_(fmsg_bad_option)("--icegrind-out", "it is needed: a directory that exists\n");
   VG_(sprintf)(link, "/proc/self/fd/%d", VG_(cl_exec_fd));
   SSizeT length = VG_(readlink)(link, name, sizeof name - 1);
   name[length > 0 ? length : 0] = 0;
   program_name = VG_(strdup)("icegrind.program", name);
   /* A program that may not write there (another user, another root) goes on without: the reader sees that it is missing. */
   open_output();
}

static void end(Int code) {
   end_piece();
   room_for(16);
   put_byte('E');
   put_time(now_ns());
   write_out();
}

static void init(void) {
   VG_(details_name)("icegrind");
   VG_(details_version)(NULL);
   VG_(details_description)("which bytes of its files a program touches");
   VG_(details_copyright_author)("Copyright (C) the thaw authors; GPL-2.0-or-later.");
   VG_(details_bug_reports_to)("the thaw repository");
   VG_(details_avg_translation_sizeB)(320);
   VG_(basic_tool_funcs)(begin, instrument, end);
   /* VEX takes out a load whose result is overwritten before anybody could see it, but its page is asked for all the same. With
      every register kept at every instruction such loads stay. */
   VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtEachInsn;
   VG_(clo_px_file_backed) = VexRegUpdAllregsAtEachInsn;
   VG_(needs_command_line_options)(option, usage, no_usage);
   VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
   VG_(track_new_mem_startup)(mapped_at_start);
   VG_(track_new_mem_mmap)(mapped);
   VG_(track_copy_mem_remap)(moved);
   VG_(track_die_mem_munmap)(unmapped);
   VG_(track_pre_mem_read)(given_to_kernel);
   VG_(track_pre_mem_read_asciiz)(string_given_to_kernel);
   VG_(track_post_mem_write)(written_by_kernel);
   VG_(track_start_client_code)(begins_to_run);
   VG_(atfork)(before_fork, NULL, child_after_fork);
   files = VG_(HT_construct)("icegrind.files");
   VG_(memset)(all_set, 0xff, sizeof all_set);
   forget_cache();
}

VG_DETERMINE_INTERFACE_VERSION(init)
