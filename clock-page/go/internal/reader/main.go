// SPDX-License-Identifier: Apache-2.0

// Shows what the package makes of a page, for the test of all languages and for measurements.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"conclave.dev/conclaveclock"
)

var refusals = map[error]string{
	conclaveclock.ErrShort:         "short",
	conclaveclock.ErrForeign:       "foreign",
	conclaveclock.ErrOtherLayout:   "layout",
	conclaveclock.ErrInjectedFault: "fault",
}

func main() {
	open := conclaveclock.Open
	if os.Args[2] == "even-with-fault" {
		open = conclaveclock.OpenEvenWithFault
	}
	reader, err := open(os.Args[1])
	if err != nil {
		fmt.Println(name(err))
		return
	}
	for _, asked := range os.Args[3:] {
		switch asked {
		case "now":
			show(reader.Now())
		case "measure":
			measure(reader, 2_000_000)
		default:
			raw, err := strconv.ParseUint(asked, 10, 64)
			if err != nil {
				log.Fatal(err)
			}
			if words, ok := reader.Words(); ok {
				show(words.At(raw))
			} else {
				fmt.Println("no words")
			}
		}
	}
	if err := reader.Close(); err != nil {
		log.Fatal(err)
	}
}

func name(err error) string {
	for refusal, name := range refusals {
		if errors.Is(err, refusal) {
			return name
		}
	}
	return "io"
}

func show(r conclaveclock.Reading) {
	fmt.Println(r.TimeNs, r.EarliestNs, r.LatestNs, r.ErrorNs, r.Status, r.Epoch, r.Raw, r.Members, r.Used,
		r.MaxDriftPpb, r.WanderPpb, r.UtcOffsetNs, r.UtcBoundNs)
}

func measure(reader *conclaveclock.Reader, count int) {
	begin := time.Now()
	for range count {
		var now syscall.Timespec
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 4, uintptr(unsafe.Pointer(&now)), 0)
	}
	middle := time.Now()
	for range count {
		reader.Now()
	}
	each := func(passed time.Duration) float64 { return float64(passed.Nanoseconds()) / float64(count) }
	fmt.Printf("%.1f %.1f\n", each(middle.Sub(begin)), each(time.Since(middle)))
}
