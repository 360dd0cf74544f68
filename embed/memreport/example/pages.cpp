/* The program of docs/memory.md in C++: a cache that reports itself. */
#include "thaw_memreport.h"
#include <cstdio>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

class Cache {
public:
	Cache() : id(thaw_reporter_register("cache", collect, this)) {}
	~Cache() { thaw_reporter_unregister(id); }

	void add(std::vector<char> page)
	{
		std::lock_guard<std::mutex> guard(lock);
		pages.push_back(std::move(page));
	}

private:
	/* Called by a thread of the library when somebody asks. */
	static void collect(thaw_collection *collection, void *context)
	{
		Cache *cache = static_cast<Cache *>(context);
		std::lock_guard<std::mutex> guard(cache->lock);
		size_t bytes = thaw_measure(collection, cache->pages.data());
		for (const std::vector<char> &page : cache->pages)
			bytes += thaw_measure(collection, page.data());
		thaw_report(collection, "explicit/cache/pages", THAW_HEAP, THAW_BYTES, (int64_t)bytes, "Pages that were read.");
		thaw_report(collection, "cache-pages", THAW_OTHER, THAW_COUNT, (int64_t)cache->pages.size(), "Pages in the cache.");
	}

	std::mutex lock;
	std::vector<std::vector<char>> pages;
	int id;
};

int main()
{
	Cache cache;
	for (int i = 0; i < 1000; i++)
		cache.add(std::vector<char>(4096));
	if (thaw_memreport_start(nullptr) != 0)
		return 1;
	std::puts(thaw_memreport_is_there() ? "reporting" : "no library");
	std::fflush(stdout);
	pause();
}
