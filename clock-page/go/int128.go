// SPDX-License-Identifier: Apache-2.0

package conclaveclock

import (
	"math"
	"math/bits"
)

// int128 is a whole number of 128 bits in two's complement.
type int128 struct {
	high int64
	low  uint64
}

func ofUint64(value uint64) int128 { return int128{0, value} }

func ofInt64(value int64) int128 { return int128{value >> 63, uint64(value)} }

func (a int128) plus(b int128) int128 {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(uint64(a.high), uint64(b.high), carry)
	return int128{int64(high), low}
}

func (a int128) negative() int128 {
	low, borrow := bits.Sub64(0, a.low, 0)
	high, _ := bits.Sub64(0, uint64(a.high), borrow)
	return int128{int64(high), low}
}

func (a int128) minus(b int128) int128 { return a.plus(b.negative()) }

// times multiplies a number of at most 64 bits and a sign by another; the product has at most 127 bits and a sign.
func (a int128) times(b int64) int128 {
	isNegative := (a.high < 0) != (b < 0)
	if a.high < 0 {
		a = a.negative()
	}
	// The negative of the least number is itself, and as a number without a sign it is right.
	magnitude := uint64(b)
	if b < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(a.low, magnitude)
	product := int128{int64(high), low}
	if isNegative {
		return product.negative()
	}
	return product
}

// share is the number in units of 2^48, rounded down.
func (a int128) share() int128 {
	return int128{a.high >> 48, uint64(a.high)<<16 | a.low>>48}
}

func (a int128) clampInt64() int64 {
	switch {
	case a.high == int64(a.low)>>63:
		return int64(a.low)
	case a.high < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

func (a int128) clampUint64() uint64 {
	switch {
	case a.high == 0:
		return a.low
	case a.high < 0:
		return 0
	default:
		return math.MaxUint64
	}
}
