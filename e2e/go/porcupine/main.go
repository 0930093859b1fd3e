// Command porcupine reads a history of locks, as JSON lines from its standard input, and asks
// Porcupine, a checker of linearizability, whether some sequence of steps explains it.
//
// It says what share of the history was decided. It ends with 1 and says what cannot be put in order
// if there is no such sequence; with 2 if the input is no history; with 3 if less than half could be
// decided in time.
//
// # The model
//
// Each lock is an object of its own, with five steps. Each of them happens at one moment between two
// that the client knows of:
//
//   - take, with a token: only while nobody holds, and the token is above all before it. If it is known
//     which view gave the token, that is no earlier view than those before. It happens between the
//     request and its answer.
//   - end, of the hold with that token. A lease ends by itself, and the service may let it live longer
//     than its client can know. So all that is known is that it does not end while the client
//     believes to hold: it happens at any time after the client began to give it back, or after the
//     last deadline that it was told, whichever is earlier. If that was over when the answer came, nobody
//     ever believed, and it happens at any time after the take.
//   - write, with a token that the store took: none above it was taken before. The store writes down its own
//     order, so this happens at the moment that is recorded.
//   - refusal, of a token by the store: it is not the holder's. This happens at the moment that is recorded.
//   - show, of a token by which a hold was renewed or given back: it is the holder's. It happens at any
//     time after the call began, since it is not recorded when the call returned.
//
// A request that was not answered may have been granted or not, and if it was, nobody knows. That it
// was not explains all that it could explain: it is no step. A grant without a token promises no
// exclusion: it is none either. Being told of a loss is no step, since the deadline that was told before
// stands.
//
// The leader lease is one more such object. Its token is the epoch; it was taken at any time before
// the leader was first told, and does not end while the leader believes, which a later view of its own ends.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// What this ends with.
const (
	notInOrder = 1
	noHistory  = 2
	undecided  = 3
)

// Moments that are not known: before the history, and after it.
const (
	before = math.MinInt64
	after  = math.MaxInt64
)

func main() {
	limit := flag.Duration("limit", time.Minute, "how long to search, in all")
	part := flag.Int("part", 500, "of how many holds a part has at least, where it can be cut")
	flag.Parse()
	objects, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no history:", err)
		os.Exit(noHistory)
	}
	total, decided, wrong := 0, 0, 0
	begun := time.Now()
	for _, object := range objects {
		for _, p := range object.parts(*part) {
			total += len(p.steps)
			// Zero would stand for as long as it takes.
			left := max(1, min(*limit-time.Since(begun), *limit/10))
			switch porcupine.CheckEventsTimeout(p.model(), p.events(), left) {
			case porcupine.Ok:
				decided += len(p.steps)
			case porcupine.Illegal:
				decided += len(p.steps)
				wrong++
				fmt.Printf("%s cannot be put in order\n%s", object.name, p.explain(*limit/10))
			case porcupine.Unknown:
			}
		}
	}
	fmt.Printf("%d of %d steps of %d objects were decided\n", decided, total, len(objects))
	if wrong > 0 {
		os.Exit(notInOrder)
	}
	if 2*decided < total {
		os.Exit(undecided)
	}
}

// ----- The sequential specification

type kind int

const (
	take kind = iota
	end
	write
	refusal
	show
)

// A number that may not be known.
type number struct {
	known bool
	value uint64
}

func some(value uint64) number { return number{true, value} }

// What happened at some moment from call to ret. Those of one moment happened in their order.
type step struct {
	kind      kind
	token     uint64
	view      number
	follows   number // the next smaller token, of a take
	shows     int    // of the token, before the hold ends
	call, ret int64
}

// What is true of a lock.
type state struct {
	holder, last, view, stored number
	shows                      int
}

// after says whether a step is legal, and what is true then. What a step makes impossible for later ones
// is looked for here and not where they fail to come: that saves the search most of its ways.
func (s state) after(done step) (bool, state) {
	switch done.kind {
	case take:
		isFree := !s.holder.known
		// All takes must come in the end, so none may pass over a smaller token.
		rises := s.last == done.follows && (!s.last.known || s.last.value < done.token)
		if done.view.known {
			rises = rises && (!s.view.known || s.view.value <= done.view.value)
			s.view = done.view
		}
		s.holder, s.last, s.shows = some(done.token), some(done.token), 0
		return isFree && rises, s
	case end:
		// A token is taken once, so whatever shows it must have come by now.
		isHolder := s.holder == some(done.token) && s.shows == done.shows
		s.holder, s.shows = number{}, 0
		return isHolder, s
	case write:
		isNoOlder := !s.stored.known || s.stored.value <= done.token
		s.stored = some(done.token)
		return isNoOlder, s
	case refusal:
		return s.holder != some(done.token), s
	case show:
		s.shows++
		return s.holder == some(done.token), s
	}
	panic("no such step")
}

// ----- What is read

type moment struct{ Secs, Nanos uint64 }

func (m moment) nanos() int64 {
	if m.Secs >= after/uint64(time.Second) {
		return after
	}
	return int64(m.Secs*uint64(time.Second) + m.Nanos)
}

type entry struct {
	line      string
	At        moment
	Operation struct {
		Granted *struct {
			Claim       uint64
			Token, View *uint64
			Until       moment
		}
		Extended *struct {
			Claim uint64
			Until moment
		}
		Released, Lost *struct{ Claim uint64 }
		Asked          *struct {
			Claim uint64
			Lock  string
		}
		Stored, Shown *struct {
			Lock, To string
			Token    uint64
			Accepted bool
		}
		Leads *struct {
			Who   string
			Epoch uint64
			Until moment
		}
		Resigned *struct{ Who string }
	}
}

// A request for a lock, or a time leading.
type hold struct {
	object                     *object
	token, view                number
	asked, at, until, released int64
	isGranted                  bool
}

// Until when the client believes.
func (h *hold) end() int64 { return min(h.until, h.released) }

// A lock or the leader lease.
type object struct {
	name  string
	holds []*hold
	// What else was done with its tokens.
	others []step
}

// A part of what was done with an object, that can be checked by itself.
type piece struct {
	first state
	steps []step
}

type reader struct {
	objects []*object
	named   map[string]*object
	claims  map[uint64]*hold
	leader_lease  *object
	terms   map[string]*hold
}

func read(input io.Reader) ([]*object, error) {
	var entries []entry
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		read := entry{line: lines.Text()}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		// Whatever this does not know must not be passed over.
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&read); err != nil {
			return nil, fmt.Errorf("%s: %w", read.line, err)
		}
		entries = append(entries, read)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.At.nanos(), b.At.nanos()) })
	r := reader{named: map[string]*object{}, claims: map[uint64]*hold{}, terms: map[string]*hold{}}
	for _, entry := range entries {
		if err := r.take(&entry); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.line, err)
		}
	}
	return r.objects, nil
}

func (r *reader) lock(name string) *object {
	if r.named[name] == nil {
		r.named[name] = &object{name: name}
		r.objects = append(r.objects, r.named[name])
	}
	return r.named[name]
}

func (r *reader) take(e *entry) error {
	at, did := e.At.nanos(), &e.Operation
	switch {
	case did.Asked != nil:
		if r.claims[did.Asked.Claim] != nil {
			return errors.New("one claim asks twice")
		}
		r.claims[did.Asked.Claim] = &hold{object: r.lock(did.Asked.Lock), asked: at, released: after}
	case did.Granted != nil:
		return r.granted(at, did.Granted.Claim, did.Granted.Token, did.Granted.View, did.Granted.Until)
	case did.Extended != nil:
		known := r.claims[did.Extended.Claim]
		if known == nil || !known.isGranted {
			return errors.New("it was not held")
		}
		known.until = max(known.until, did.Extended.Until.nanos())
	case did.Released != nil:
		known := r.claims[did.Released.Claim]
		if known == nil {
			return errors.New("nobody asked for it")
		}
		known.released = min(known.released, at)
	case did.Lost != nil:
		if known := r.claims[did.Lost.Claim]; known == nil || !known.isGranted {
			return errors.New("it was not held")
		}
	case did.Stored != nil:
		done := step{kind: write, token: did.Stored.Token, call: at, ret: at}
		if !did.Stored.Accepted {
			done.kind = refusal
		}
		store := r.lock(did.Stored.Lock)
		store.others = append(store.others, done)
	case did.Shown != nil:
		if did.Shown.Accepted {
			lock := r.lock(did.Shown.Lock)
			lock.others = append(lock.others, step{kind: show, token: did.Shown.Token, call: at, ret: after})
		}
	case did.Leads != nil:
		r.leads(at, did.Leads.Who, did.Leads.Epoch, did.Leads.Until.nanos())
	case did.Resigned != nil:
		if term := r.terms[did.Resigned.Who]; term != nil {
			term.until = min(term.until, at)
		}
	default:
		return errors.New("no operation that is known")
	}
	return nil
}

func (r *reader) granted(at int64, claim uint64, token, view *uint64, until moment) error {
	known := r.claims[claim]
	switch {
	case known == nil:
		return errors.New("nobody asked for it")
	case known.isGranted:
		return errors.New("it is granted twice")
	}
	known.isGranted, known.at, known.until = true, at, until.nanos()
	if view != nil {
		known.view = some(*view)
	}
	if token != nil {
		known.token = some(*token)
		known.object.holds = append(known.object.holds, known)
	}
	return nil
}

func (r *reader) leads(at int64, who string, epoch uint64, until int64) {
	if r.leader_lease == nil {
		r.leader_lease = &object{name: "the leader_lease of leader"}
		r.objects = append(r.objects, r.leader_lease)
	}
	now := r.terms[who]
	if now != nil && now.token.value == epoch {
		now.until = max(now.until, until)
		return
	}
	if now != nil {
		now.until = min(now.until, at)
	}
	now = &hold{token: some(epoch), asked: before, at: at, until: until, released: after}
	r.leader_lease.holds = append(r.leader_lease.holds, now)
	r.terms[who] = now
}

// ----- From histories to steps

// parts cuts what was done with an object wherever it is certain what is true of it: nobody can hold,
// and whoever waits got a larger token than all before, so that it took the lock later. That makes
// parts of some size, and loses nothing: what is certain is the next one's first state.
//
// Where a store was shown tokens, it is left whole.
func (o *object) parts(size int) []piece {
	least := make([]uint64, len(o.holds)+1)
	least[len(o.holds)] = math.MaxUint64
	for i := len(o.holds) - 1; i >= 0; i-- {
		least[i] = min(least[i+1], o.holds[i].token.value)
	}
	var pieces []piece
	var first, last state
	begin, over := 0, int64(before)
	for i, h := range o.holds {
		isCertain := len(o.others) == 0 && over <= h.at && last.last.value < least[i]
		if i >= begin+size && isCertain {
			pieces = append(pieces, o.piece(first, begin, i))
			begin, first = i, last
		}
		over = max(over, h.at, h.end())
		last.last = some(max(last.last.value, h.token.value))
		if h.view.known {
			last.view = some(max(last.view.value, h.view.value))
		}
	}
	return append(pieces, o.piece(first, begin, len(o.holds)))
}

func (o *object) piece(first state, from, to int) piece {
	steps, shows := slices.Clone(o.others), map[uint64]int{}
	for _, done := range steps {
		if done.kind == show {
			shows[done.token]++
		}
	}
	holds, last := slices.Clone(o.holds[from:to]), first.last
	slices.SortStableFunc(holds, func(a, b *hold) int { return cmp.Compare(a.token.value, b.token.value) })
	for _, h := range holds {
		over, token := h.end(), h.token.value
		if over <= h.at {
			over = h.asked
		}
		steps = append(steps,
			step{kind: take, token: token, view: h.view, follows: last, call: h.asked, ret: h.at},
			step{kind: end, token: token, shows: shows[token], call: over, ret: after})
		last = h.token
	}
	return piece{first, steps}
}

func (p piece) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return p.first },
		Step: func(now, done, _ any) (bool, any) {
			isLegal, next := now.(state).after(done.(step))
			return isLegal, next
		},
	}
}

// events are the calls and returns in order. A moment counts as both before and after itself, but
// what a store did at one moment has its own order.
func (p piece) events() []porcupine.Event {
	type mark struct {
		at    int64
		class int
		event porcupine.Event
	}
	var marks []mark
	for id, done := range p.steps {
		call, ret := 0, 2
		if done.kind == write || done.kind == refusal {
			call, ret = 1, 1
		}
		marks = append(marks,
			mark{done.call, call, porcupine.Event{Kind: porcupine.CallEvent, Value: done, Id: id}},
			mark{done.ret, ret, porcupine.Event{Kind: porcupine.ReturnEvent, Id: id}})
	}
	slices.SortStableFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.class, b.class))
	})
	events := make([]porcupine.Event, len(marks))
	for i, mark := range marks {
		events[i] = mark.event
	}
	return events
}

// ----- What is said

// explain shows how far the longest attempt came, and what could not follow.
func (p piece) explain(limit time.Duration) string {
	_, info := porcupine.CheckEventsVerbose(p.model(), p.events(), limit)
	var longest []porcupine.Operation
	for _, attempt := range info.PartialLinearizationsOperations()[0] {
		if len(attempt) > len(longest) {
			longest = attempt
		}
	}
	rest := slices.DeleteFunc(slices.Clone(p.steps), func(done step) bool {
		return slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Input == done })
	})
	slices.SortStableFunc(rest, func(a, b step) int { return cmp.Compare(a.ret, b.ret) })
	var text strings.Builder
	for _, done := range longest[max(0, len(longest)-4):] {
		fmt.Fprintf(&text, "  %s\n", done.Input)
	}
	text.WriteString("  and then none of:\n")
	for _, done := range rest[:min(4, len(rest))] {
		fmt.Fprintf(&text, "    %s\n", done)
	}
	return text.String()
}

func (s step) String() string {
	what := [...]string{"take", "end", "write", "refusal", "show"}[s.kind]
	text := fmt.Sprintf("%s %d", what, s.token)
	if s.view.known {
		text += fmt.Sprintf(" of view %d", s.view.value)
	}
	return fmt.Sprintf("%s, from %s to %s", text, shown(s.call), shown(s.ret))
}

func shown(at int64) string {
	if at == before || at == after {
		return "whenever"
	}
	return fmt.Sprintf("%.6f s", float64(at)/float64(time.Second))
}
