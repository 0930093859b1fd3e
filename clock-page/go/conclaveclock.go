// SPDX-License-Identifier: Apache-2.0

// Package conclaveclock reads group time from the clock page of Conclave.
//
// Go has no access to CLOCK_MONOTONIC_RAW but a real system call: the runtime asks the vDSO for other clocks alone. So
// Now costs a system call, some hundred nanoseconds, where the readers in C and Rust need none.
package conclaveclock

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Why a page is not opened. Other errors are those of the operating system.
var (
	ErrShort         = errors.New("the file is shorter than a clock page")
	ErrForeign       = errors.New("the file is no clock page")
	ErrOtherLayout   = errors.New("the clock page has another layout")
	ErrInjectedFault = errors.New("the clock page is of a test: its clock has an injected fault")
	ErrBigEndian     = errors.New("this machine is big endian, and clock pages are read on others")
)

// Status is how a clock stands.
type Status uint8

// The status of a reading.
const (
	// Unknown: nothing is known of group time.
	Unknown Status = iota
	// Synchronised: group time is within the error.
	Synchronised
	// Disrupted: what is stated may be untrue.
	Disrupted
	// Holdover: the words are stale; the error still holds, and grows.
	Holdover
)

// Reading is group time at one reading of the raw clock.
type Reading struct {
	TimeNs int64
	// Group time is within these; math.MinInt64 and math.MaxInt64 if the status is Unknown.
	EarliestNs, LatestNs int64
	// How far group time is from TimeNs at most; math.MaxUint64 if the status is Unknown.
	ErrorNs       uint64
	Status        Status
	Epoch         uint64
	Raw           uint64
	Members, Used uint32
	// The assumptions on how fast a member's raw clock drifts, and on how much its rate wanders.
	MaxDriftPpb, WanderPpb uint64
	UtcOffsetNs            int64
	// math.MaxUint64 if it is not known.
	UtcBoundNs uint64
}

// Words is what a page states: its words, each at its offset divided by 8. Those before the payload are not set.
type Words [payloadEnd / 8]uint64

// Reader is an open page. Goroutines may share it.
type Reader struct {
	page   []byte
	header uint64
}

// Open opens the page at a path.
func Open(path string) (*Reader, error) { return open(path, false) }

// OpenEvenWithFault opens the page at a path, even if the clock of its writer has an injected fault: for tests.
func OpenEvenWithFault(path string) (*Reader, error) { return open(path, true) }

func open(path string, acceptFault bool) (*Reader, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, ErrBigEndian
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// An access behind the end of the file would end the process.
	if found.Size() < pageSize {
		return nil, ErrShort
	}
	page, err := syscall.Mmap(int(file.Fd()), 0, pageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	reader := &Reader{page: page}
	reader.header = reader.load(atSize)
	if err := reader.check(acceptFault); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return reader, nil
}

func (r *Reader) check(acceptFault bool) error {
	size, layout, flags := uint32(r.header), uint16(r.header>>32), r.header>>48
	switch {
	case string(r.page[:8]) != "CNCLVCLK":
		return ErrForeign
	case layout != 1:
		return ErrOtherLayout
	case size != pageSize || flags > 1:
		return ErrForeign
	case flags == 1 && !acceptFault:
		return ErrInjectedFault
	}
	return nil
}

// Close unmaps the page. No goroutine may use the reader then.
func (r *Reader) Close() error { return syscall.Munmap(r.page) }

// Now gives group time now.
func (r *Reader) Now() Reading {
	if words, raw, ok := r.section(); ok {
		return words.At(raw)
	}
	return Reading{
		EarliestNs: math.MinInt64, LatestNs: math.MaxInt64, ErrorNs: math.MaxUint64,
		Raw: rawClock(), UtcBoundNs: math.MaxUint64,
	}
}

// Words gives what the page states; nothing if it was never published, or changed all the while.
func (r *Reader) Words() (Words, bool) {
	words, _, ok := r.section()
	return words, ok
}

// section reads the words, and the raw clock while they were in force. Atomic loads are in order in Go: none is made
// before one above it.
func (r *Reader) section() (words Words, raw uint64, ok bool) {
	for range tries {
		before := r.load(atSeq)
		if before == 0 || before%2 != 0 {
			continue
		}
		for at := atRawA; at < payloadEnd; at += 8 {
			words[at/8] = r.load(at)
		}
		header := r.load(atSize)
		raw = rawClock()
		if r.load(atSeq) == before {
			return words, raw, header == r.header
		}
	}
	return words, 0, false
}

func (r *Reader) load(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.page[at])))
}

// At gives group time at a reading of the raw clock.
func (w *Words) At(raw uint64) Reading {
	piece := atRawC / 8
	if raw < w[atRawB/8] {
		piece = atRawA / 8
	} else if raw < w[atRawC/8] {
		piece = atRawB / 8
	}
	passed := ofUint64(raw).minus(ofUint64(w[piece]))
	gained := passed.times(int64(w[piece+2])).share()
	reading := Reading{
		TimeNs:      ofInt64(int64(w[piece+1])).plus(passed).plus(gained).clampInt64(),
		EarliestNs:  math.MinInt64,
		LatestNs:    math.MaxInt64,
		ErrorNs:     math.MaxUint64,
		Status:      w.statusAt(raw),
		Epoch:       w[atEpoch/8],
		Raw:         raw,
		Members:     uint32(w[atMembers/8]),
		Used:        uint32(w[atMembers/8] >> 32),
		MaxDriftPpb: w[atMaxDriftPpb/8],
		WanderPpb:   w[atWanderPpb/8],
		UtcOffsetNs: int64(w[atUtcOffsetNs/8]),
		UtcBoundNs:  w[atUtcBoundNs/8],
	}
	if reading.Status == Unknown {
		return reading
	}
	grown := growthSince(raw, w[atBoundRaw/8], int64(w[atGrowth/8]))
	later := growthSince(raw, w[atLaterRaw/8], int64(w[atLaterGrowth/8]))
	reading.ErrorNs = ofUint64(w[atBoundNs/8]).plus(grown).plus(later).clampUint64()
	err := ofUint64(reading.ErrorNs)
	reading.EarliestNs = ofInt64(reading.TimeNs).minus(err).clampInt64()
	reading.LatestNs = ofInt64(reading.TimeNs).plus(err).clampInt64()
	return reading
}

func (w *Words) statusAt(raw uint64) Status {
	stated := w[atStatus/8]
	switch {
	case raw > w[atVoidAfterRaw/8] || stated > uint64(Disrupted):
		return Unknown
	case stated == uint64(Synchronised) && raw > w[atStaleAfterRaw/8]:
		return Holdover
	}
	return Status(stated)
}

// growthSince is how much an error grows, rounded up.
func growthSince(raw, from uint64, growth int64) int128 {
	if raw < from {
		return int128{}
	}
	return ofUint64(raw - from).times(growth).negative().share().negative()
}

func rawClock() uint64 {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonicRaw, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Sec)*1_000_000_000 + uint64(now.Nsec)
}

const (
	monotonicRaw = 4
	pageSize     = 4096
	tries        = 1_000
)

// Offsets of the fields in bytes.
const (
	atSize          = 8
	atSeq           = 16
	atRawA          = 24
	atRawB          = 48
	atRawC          = 72
	atBoundRaw      = 96
	atBoundNs       = 104
	atGrowth        = 112
	atLaterRaw      = 120
	atLaterGrowth   = 128
	atStaleAfterRaw = 136
	atVoidAfterRaw  = 144
	atStatus        = 152
	atEpoch         = 160
	atMembers       = 168
	atMaxDriftPpb   = 176
	atWanderPpb     = 184
	atUtcOffsetNs   = 192
	atUtcBoundNs    = 200
	payloadEnd      = 224
)
