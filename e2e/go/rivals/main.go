// Command rivals takes locks from several services in one run, each by a client that does no more
// than it must, and prints what that cost as JSON lines, one for each figure.
//
//	rivals [-crowd] -conclave PORT,PORT,... [-redis ADDRESS] [-etcd URL] [-zookeeper ADDRESS]
//
// Machines are noisy: whatever is compared is measured in turn, in short rounds.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// locker is one client of a service. It holds one lock at a time.
type locker interface {
	lock(name string) error
	unlock() error
}

// service makes clients; the n-th goes to the n-th of its servers. Its locks have names that begin with kind.
type service struct {
	name    string
	kind    string
	connect func(n int) (locker, error)
}

// figure is one line of the output. Times are in milliseconds.
type figure struct {
	What string  `json:"what"`
	Who  string  `json:"who"`
	Rate float64 `json:"rate"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	N    int     `json:"n"`
	// Least and most that one of several clients got, as shares of what each would get in turn.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Overtaken is the share of grants while somebody waited who had asked at least 5 ms earlier.
	Overtaken float64 `json:"overtaken"`
}

const (
	clients = 8
	names   = 1000
	alone   = 2000
	row     = 100
	rounds  = 4
	span    = 1500 * time.Millisecond
	margin  = 5 * time.Millisecond
	oneLock = "8 clients, one lock"
)

// algorithms are those of Conclave's locks. A group has a kind of locks for each, with names that begin with it.
var algorithms = []string{
	"Central", "TokenRing", "Raymond", "Lamport", "RicartAgrawala", "Maekawa", "Voting",
}

func main() {
	conclave := flag.String("conclave", "", "ports of a group's members, the leader's first")
	redis := flag.String("redis", "", "address of a Redis server")
	etcd := flag.String("etcd", "", "URL of an etcd server")
	zookeeper := flag.String("zookeeper", "", "address of a ZooKeeper server")
	isCrowd := flag.Bool("crowd", false, "eight clients at a time, not one")
	flag.Parse()
	ports := strings.Split(*conclave, ",")
	members := func(ports []string) func(int) (locker, error) {
		return func(n int) (locker, error) { return dialConclave(ports[n%len(ports)]) }
	}
	crowd := []service{{"Conclave", "", members(ports)}}
	single := []service{
		{"Conclave, at the leader", "", members(ports[:1])},
		{"Conclave, at a follower", "", members(ports[1:2])},
		{"Conclave, two calls for no lock", "", func(int) (locker, error) { return dialReader(ports[0]) }},
	}
	others := []service{}
	if *redis != "" {
		others = append(others, service{"Redis", "", func(int) (locker, error) { return dialRedis(*redis) }})
	}
	if *etcd != "" {
		others = append(others, service{"etcd", "", func(int) (locker, error) { return dialEtcd(*etcd) }})
	}
	if *zookeeper != "" {
		dial := func(int) (locker, error) { return dialZooKeeper(*zookeeper) }
		others = append(others, service{"ZooKeeper", "", dial})
	}
	single, crowd = append(others, single...), append(others, crowd...)
	var alone, together []service
	for _, algorithm := range algorithms {
		kind := algorithm + "-"
		alone = append(alone,
			service{algorithm + ", at the leader", kind, members(ports[:1])},
			service{algorithm + ", at a follower", kind, members(ports[1:2])})
		together = append(together, service{algorithm, kind, members(ports)})
	}
	if !*isCrowd {
		uncontended("acquire and release by one client, in a row", row, single)
		uncontended("acquire and release by one client, in turn with the others", 1, single)
		uncontended("Conclave alone, acquire and release by one client, in a row", row, alone)
		return
	}
	crowded(oneLock, crowd, func() string { return "crowd" })
	crowded("8 clients, 1,000 locks", crowd, func() string {
		return fmt.Sprintf("many-%d", rand.Intn(names))
	})
	crowded("Conclave alone, "+oneLock, together, func() string { return "crowd" })
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// uncontended takes and gives back a lock that nobody else wants, at each service in turn: so often in a row. Whoever
// comes after another service finds the processor's caches full of it.
func uncontended(what string, row int, services []service) {
	clients := make([]locker, len(services))
	times := make([][]time.Duration, len(services))
	for i, service := range services {
		client, err := service.connect(0)
		check(err)
		clients[i] = client
	}
	for round := range (alone + alone/10) / row {
		for i, client := range clients {
			for n := range row {
				begin := time.Now()
				check(client.lock(fmt.Sprintf("%salone-%d-%d", services[i].kind, i, (round*row+n)%8)))
				check(client.unlock())
				// What comes first warms up.
				if round >= alone/10/row {
					times[i] = append(times[i], time.Since(begin))
				}
			}
		}
	}
	for i, service := range services {
		said := figure{What: what, Who: service.name}
		said.print(times[i])
	}
}

// grant is when a client asked, when it was let in, and who it is.
type grant struct {
	asked, granted time.Time
	client         int
}

// crowded lets many clients take and give back locks as fast as they can.
func crowded(what string, services []service, name func() string) {
	all := make([][]locker, len(services))
	grants := make([][]grant, len(services))
	for i, service := range services {
		for n := range clients {
			client, err := service.connect(n)
			check(err)
			all[i] = append(all[i], client)
		}
	}
	for range rounds {
		for i := range services {
			grants[i] = append(grants[i], work(all[i], func() string { return services[i].kind + name() })...)
		}
	}
	for i, service := range services {
		said := figure{What: what, Who: service.name}
		if strings.HasSuffix(what, oneLock) {
			said.Overtaken = overtaken(grants[i])
		}
		said.Rate = float64(len(grants[i])) / (rounds * span.Seconds())
		counts := make([]int, clients)
		times := make([]time.Duration, 0, len(grants[i]))
		for _, grant := range grants[i] {
			counts[grant.client]++
			times = append(times, grant.granted.Sub(grant.asked))
		}
		fair := float64(len(grants[i])) / clients
		said.Least = float64(slices.Min(counts)) / fair
		said.Most = float64(slices.Max(counts)) / fair
		said.print(times)
	}
}

func work(lockers []locker, name func() string) []grant {
	var group sync.WaitGroup
	results := make([][]grant, len(lockers))
	end := time.Now().Add(span)
	for n, client := range lockers {
		group.Go(func() {
			for time.Now().Before(end) {
				asked := time.Now()
				check(client.lock(name()))
				results[n] = append(results[n], grant{asked, time.Now(), n})
				check(client.unlock())
			}
		})
	}
	group.Wait()
	return slices.Concat(results...)
}

// overtaken is the share of grants that came while another client waited, who had asked earlier by
// more than a message takes.
func overtaken(grants []grant) float64 {
	if len(grants) == 0 {
		return 0
	}
	slices.SortFunc(grants, func(a, b grant) int { return a.granted.Compare(b.granted) })
	count := 0
	for i, mine := range grants {
		// Whoever was granted later and asked earlier waited meanwhile.
		for _, other := range grants[i+1 : min(len(grants), i+4*clients)] {
			if other.asked.Add(margin).Before(mine.asked) {
				count++
				break
			}
		}
	}
	return float64(count) / float64(len(grants))
}

func (f figure) print(times []time.Duration) {
	slices.Sort(times)
	at := func(share int) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[(len(times)-1)*share/100].Microseconds()) / 1000
	}
	f.P50, f.P99, f.N = at(50), at(99), len(times)
	check(json.NewEncoder(os.Stdout).Encode(f))
}

// conclave speaks HTTP over one connection. Of an answer it reads the status, what was made, and the body.
type conclave struct {
	conn   net.Conn
	reader *bufio.Reader
	host   string
	claim  string
}

func dialConclave(port string) (*conclave, error) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return &conclave{conn: conn, reader: bufio.NewReader(conn), host: "localhost:" + port}, nil
}

// call returns the location that an answer of this status has.
func (c *conclave) call(method, path, status string) (string, error) {
	const form = "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n"
	if _, err := fmt.Fprintf(c.conn, form, method, path, c.host); err != nil {
		return "", err
	}
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	said, _ := strings.CutPrefix(strings.TrimSpace(line), "HTTP/1.1 ")
	location, length := "", 0
	for {
		header, err := c.reader.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		name, value, more := bytes.Cut(bytes.TrimSpace(header), []byte(": "))
		switch {
		case !more:
			body := make([]byte, length)
			_, err := io.ReadFull(c.reader, body)
			if err == nil && !strings.HasPrefix(said, status) {
				err = fmt.Errorf("%s %s: %s %s", method, path, said, body)
			}
			return location, err
		case bytes.EqualFold(name, []byte("location")):
			location = string(value)
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			return "", fmt.Errorf("%s %s: a body without a length", method, path)
		}
	}
}

// reader makes calls of the same service that its one thread answers at once: what the way by HTTP costs.
type reader struct{ *conclave }

func dialReader(port string) (locker, error) {
	client, err := dialConclave(port)
	return reader{client}, err
}

func (r reader) lock(string) error {
	_, err := r.call("GET", "/v1/elections/default/self", "200")
	return err
}

func (r reader) unlock() error {
	return r.lock("")
}

func (c *conclave) lock(name string) (err error) {
	c.claim, err = c.call("POST", "/v1/locks/"+name+"?wait=30s", "201")
	return err
}

func (c *conclave) unlock() error {
	_, err := c.call("DELETE", c.claim, "204")
	return err
}

// redis does what the documentation of SET describes: an expiring key with a value of one's own, deleted
// by a script that compares the value. Whoever finds it taken asks again after a pause.
type redis struct {
	conn   net.Conn
	reader *bufio.Reader
	held   string
	value  string
	script string
}

const (
	release = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	pause   = time.Millisecond
)

func dialRedis(address string) (locker, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	client := &redis{conn: conn, reader: bufio.NewReader(conn), value: conn.LocalAddr().String()}
	client.script, err = client.call("SCRIPT", "LOAD", release)
	return client, err
}

// call returns a simple, integer or bulk answer; nil is empty.
func (r *redis) call(words ...string) (string, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(r.conn, command.String()); err != nil {
		return "", err
	}
	line, err := r.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch {
	case kind == '-':
		return "", fmt.Errorf("redis: %s", rest)
	case kind != '$' || rest == "-1":
		return strings.TrimPrefix(rest, "-1"), nil
	}
	length, err := strconv.Atoi(rest)
	if err != nil {
		return "", err
	}
	body := make([]byte, length+2)
	_, err = io.ReadFull(r.reader, body)
	return string(body[:length]), err
}

func (r *redis) lock(name string) error {
	for {
		said, err := r.call("SET", name, r.value, "NX", "PX", "10000")
		if err != nil || said == "OK" {
			r.held = name
			return err
		}
		time.Sleep(pause)
	}
}

func (r *redis) unlock() error {
	said, err := r.call("EVALSHA", r.script, "1", r.held, r.value)
	if err == nil && said != "1" {
		err = fmt.Errorf("redis: %s was not held", r.held)
	}
	return err
}

// etcd uses the mutex of its own client library, in a session of its own.
type etcd struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func dialEtcd(url string) (locker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	return &etcd{session: session}, err
}

func (e *etcd) lock(name string) error {
	e.mutex = concurrency.NewMutex(e.session, "/"+name)
	return e.mutex.Lock(context.Background())
}

func (e *etcd) unlock() error {
	return e.mutex.Unlock(context.Background())
}

// zookeeper uses the lock of its client library, which is the recipe of ZooKeeper's documentation.
type zookeeper struct {
	conn *zk.Conn
	held *zk.Lock
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func dialZooKeeper(address string) (locker, error) {
	conn, events, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	// It listens a little before it serves.
	late := time.After(20 * time.Second)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return &zookeeper{conn: conn}, nil
			}
		case <-late:
			return nil, errors.New("zookeeper: no session")
		}
	}
}

func (z *zookeeper) lock(name string) error {
	z.held = zk.NewLock(z.conn, "/"+name, zk.WorldACL(zk.PermAll))
	return z.held.Lock()
}

func (z *zookeeper) unlock() error {
	return z.held.Unlock()
}
