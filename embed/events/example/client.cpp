// A small HTTP client with a pool of connections, instrumented with thaw_events.h, and the server that it speaks to.
//
//     c++ -std=c++17 -O2 -pthread -I ../include client.cpp -o client
//     THAW_EVENTS=/some/directory ./client --pool 2 --server-ms 10
//     thaw timeline path /some/directory
//
// A page of --requests resources is loaded by --workers threads over at most --pool connections. The server, in the same
// program on the loopback device, takes --server-ms for each answer, and --slow-ms more for /slow.js, which is one of the
// page's resources if that is not 0. --cached of the resources are in the cache and need no connection. Prints how many
// milliseconds the page took.
#include "thaw_events.h"
#include <arpa/inet.h>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

struct Options {
	int requests = 24, workers = 12, pool = 6, server_ms = 10, slow_ms = 0, cached = 0, decode_ms = 1;
};

[[noreturn]] static void fail(const char *what)
{
	std::perror(what);
	std::exit(1);
}

static void sleep_ms(int ms)
{
	timespec time = {ms / 1000, ms % 1000 * 1000000L};
	nanosleep(&time, nullptr);
}

static int tcp()
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void write_all(int fd, const std::string &text)
{
	for (size_t done = 0; done < text.size();) {
		ssize_t sent = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
		if (sent <= 0)
			fail("send");
		done += (size_t)sent;
	}
}

// Up to the empty line; empty if the other side has closed.
static std::string read_head(int fd)
{
	std::string head;
	for (char letter; head.find("\r\n\r\n") == std::string::npos;) {
		if (recv(fd, &letter, 1, 0) != 1)
			return "";
		head += letter;
	}
	return head;
}

// Answers each request after its time. It writes no events: to a client, a server is far away.
class Server {
public:
	explicit Server(const Options &options) : options(options)
	{
		sockaddr_in address = {};
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		socklen_t size = sizeof(address);
		if (bind(listener, (sockaddr *)&address, size) || listen(listener, 64) ||
		    getsockname(listener, (sockaddr *)&address, &size))
			fail("listen");
		port = ntohs(address.sin_port);
		accepting = std::thread([this] {
			for (int fd; (fd = accept(listener, nullptr, nullptr)) >= 0;)
				serving.emplace_back([this, fd] { serve(fd); });
		});
	}

	~Server()
	{
		shutdown(listener, SHUT_RDWR);
		accepting.join();
		for (auto &thread : serving)
			thread.join();
		close(listener);
	}

	uint16_t port = 0;

private:
	void serve(int fd)
	{
		int one = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		for (std::string head; !(head = read_head(fd)).empty();) {
			sleep_ms(options.server_ms + (head.rfind("GET /slow.js ", 0) == 0 ? options.slow_ms : 0));
			write_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
		}
		close(fd);
	}

	const Options &options;
	int listener = tcp();
	std::thread accepting;
	std::vector<std::thread> serving;
};

struct Request {
	std::string path;
	bool is_cached;
};

struct Connection {
	int fd = -1;
};

// Connections, lent in the order in which they were asked for.
class Pool {
public:
	Pool(int most, uint16_t port) : port(port)
	{
		for (int number = 1; number <= most; number++) {
			all.push_back(std::make_unique<Connection>());
			free.push_back(all.back().get());
			THAW_NAME(all.back().get(), ("connection " + std::to_string(number)).c_str());
		}
	}

	~Pool()
	{
		for (auto &one : all) {
			if (one->fd >= 0)
				close(one->fd);
			THAW_FREE(one.get());
		}
	}

	Connection *take(const Request *request)
	{
		std::unique_lock<std::mutex> lock(mutex);
		THAW_WAIT(request, "pool::wait");
		uint64_t ticket = next++;
		changed.wait(lock, [&] { return ticket == served && !free.empty(); });
		served++;
		Connection *connection = free.front();
		free.pop_front();
		THAW_DONE(request, "pool::wait");
		THAW_LINK(connection, request, "pool::lent");
		THAW_EXEC(connection, "pool::in_use");
		lock.unlock();
		changed.notify_all();
		if (connection->fd < 0)
			open(connection);
		return connection;
	}

	void give_back(Connection *connection)
	{
		{
			std::lock_guard<std::mutex> lock(mutex);
			THAW_DONE(connection, "pool::in_use");
			free.push_back(connection);
		}
		changed.notify_all();
	}

private:
	void open(Connection *connection)
	{
		THAW_EXEC(connection, "net::connect");
		sockaddr_in address = {};
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address.sin_port = htons(port);
		connection->fd = tcp();
		if (connect(connection->fd, (sockaddr *)&address, sizeof(address)))
			fail("connect");
		THAW_DONE(connection, "net::connect");
	}

	uint16_t port;
	std::mutex mutex;
	std::condition_variable changed;
	std::vector<std::unique_ptr<Connection>> all;
	std::deque<Connection *> free;
	uint64_t next = 0, served = 0;
};

// A page: its resources, loaded by workers.
class Page {
public:
	Page(const Options &options, uint16_t port) : options(options), pool(options.pool, port) {}

	void load()
	{
		THAW_NAME(this, "http://localhost/");
		THAW_EXEC(this, "client::page");
		std::vector<std::thread> workers;
		for (int number = 1; number <= options.workers; number++)
			workers.emplace_back([this, number] {
				THAW_THREAD_NAME(("worker " + std::to_string(number)).c_str());
				work();
			});
		for (int number = 0; number < options.requests; number++)
			post("/" + std::to_string(number) + ".css", number < options.cached);
		if (options.slow_ms)
			post("/slow.js", false);
		{
			std::unique_lock<std::mutex> lock(mutex);
			THAW_WAIT(this, "client::all");
			changed.wait(lock, [&] { return done == all.size(); });
			THAW_DONE(this, "client::all");
			ended = true;
		}
		changed.notify_all();
		THAW_DONE(this, "client::page");
		for (auto &worker : workers)
			worker.join();
		for (auto &request : all)
			THAW_FREE(request.get());
	}

private:
	void post(const std::string &path, bool is_cached)
	{
		std::lock_guard<std::mutex> lock(mutex);
		all.push_back(std::make_unique<Request>(Request{path, is_cached}));
		Request *request = all.back().get();
		THAW_COMPOUND_NAME(request, "http://localhost", path.c_str());
		THAW_WAIT(request, "client::request");
		queue.push_back(request);
		changed.notify_all();
	}

	void work()
	{
		std::unique_lock<std::mutex> lock(mutex);
		for (;;) {
			changed.wait(lock, [&] { return ended || !queue.empty(); });
			if (queue.empty())
				return;
			Request *request = queue.front();
			queue.pop_front();
			lock.unlock();
			THAW_EXEC_POSTED(request, "client::request");
			fetch(request);
			lock.lock();
			done++;
			THAW_LINK(request, this, "client::loaded");
			THAW_DONE(request, "client::request");
			changed.notify_all();
		}
	}

	void fetch(Request *request)
	{
		if (!request->is_cached) {
			Connection *connection = pool.take(request);
			write_all(connection->fd, "GET " + request->path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
			THAW_WAIT(request, "http::response");
			char body[5];
			if (read_head(connection->fd).empty())
				fail("the server has closed");
			THAW_EXEC(request, "http::response");
			if (recv(connection->fd, body, sizeof(body), MSG_WAITALL) != sizeof(body))
				fail("the server has closed");
			THAW_DONE(request, "http::response");
			pool.give_back(connection);
		}
		THAW_EXEC(request, "client::decode");
		sleep_ms(options.decode_ms);
		THAW_DONE(request, "client::decode");
	}

	const Options &options;
	Pool pool;
	std::mutex mutex;
	std::condition_variable changed;
	std::deque<Request *> queue;
	std::vector<std::unique_ptr<Request>> all;
	size_t done = 0;
	bool ended = false;
};

int main(int count, char **words)
{
	Options options;
	const struct {
		const char *name;
		int *value;
	} known[] = {{"--requests", &options.requests}, {"--workers", &options.workers}, {"--pool", &options.pool},
		     {"--server-ms", &options.server_ms}, {"--slow-ms", &options.slow_ms}, {"--cached", &options.cached},
		     {"--decode-ms", &options.decode_ms}};
	for (int at = 1; at + 1 < count; at += 2) {
		bool found = false;
		for (auto &one : known)
			if (std::string(words[at]) == one.name)
				*one.value = std::atoi(words[at + 1]), found = true;
		if (!found)
			return std::fprintf(stderr, "unknown: %s\n", words[at]), 2;
	}
	Server server(options);
	timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	{
		Page page(options, server.port);
		page.load();
	}
	clock_gettime(CLOCK_MONOTONIC, &after);
	double ms = (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6;
	std::printf("%.3f\n", ms);
	return 0;
}
