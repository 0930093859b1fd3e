// Command leaderelection runs client-go's leader election at its documented defaults, as the
// controllers of Kubernetes do, and prints a line when it begins to lead.
//
//	leaderelection NAMESPACE LEASE IDENTITY [DURATION DEADLINE PERIOD]
//
// It ends, without giving the Lease back, when it is killed. With other waits than the defaults it
// gives the Lease back on SIGTERM, and its lines state the time by CLOCK_BOOTTIME, in nanoseconds:
// "leading 123", "stopped 456".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Of Linux: it counts while the machine is suspended, too.
const clockBoottime = 7

func boottime() int64 {
	var at syscall.Timespec
	pointer := uintptr(unsafe.Pointer(&at))
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, pointer, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "no CLOCK_BOOTTIME:", errno)
		os.Exit(1)
	}
	return at.Nano()
}

func main() {
	if len(os.Args) != 4 && len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: leaderelection NAMESPACE LEASE IDENTITY [DURATION DEADLINE PERIOD]")
		os.Exit(64)
	}
	namespace, lease, identity := os.Args[1], os.Args[2], os.Args[3]
	waits := [3]time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second}
	takesTurns := len(os.Args) == 7
	if takesTurns {
		for place, text := range os.Args[4:] {
			wait, err := time.ParseDuration(text)
			if err != nil {
				fmt.Fprintln(os.Stderr, "no duration:", err)
				os.Exit(64)
			}
			waits[place] = wait
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "no kubeconfig:", err)
		os.Exit(1)
	}
	if takesTurns {
		// As the controllers of Kubernetes do.
		config.Timeout = waits[1] / 2
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
		Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	ctx := context.Background()
	if takesTurns {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   waits[0],
		RenewDeadline:   waits[1],
		RetryPeriod:     waits[2],
		ReleaseOnCancel: takesTurns,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if !takesTurns {
					fmt.Println("leading")
					<-ctx.Done()
					return
				}
				fmt.Println("leading", boottime())
				// There is nothing to stop: it has stopped as soon as it hears so, which is before
				// the Lease is given back, or at its deadline.
				<-ctx.Done()
				fmt.Println("stopped", boottime())
			},
			OnStoppedLeading: func() {
				if takesTurns {
					time.Sleep(100 * time.Millisecond)
				}
				os.Exit(3)
			},
		},
	})
}
