package testenv

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

// afterQuit is how long a pqd may take to print its goroutines and end.
const afterQuit = 5 * time.Second

// run is a process that has begun. Its last lines are in the log of its Process.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// alive are the processes that tests have begun and not finished.
var alive struct {
	sync.Mutex
	processes map[*Process]run
}

// begins notes that a process runs; finished notes that its test needs it no more.
func (p *Process) begins() {
	alive.Lock()
	defer alive.Unlock()
	if alive.processes == nil {
		alive.processes = make(map[*Process]run)
	}
	alive.processes[p] = run{p.cmd, p.exited}
}

func (p *Process) finished() {
	alive.Lock()
	defer alive.Unlock()
	delete(alive.processes, p)
}

// showOnQuit makes the program answer SIGQUIT with the log of each pqd, which ends with its goroutines, and with
// its own goroutines. The runner of the tests sends it to a program that does not end.
func showOnQuit() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		alive.Lock()
		processes := maps.Clone(alive.processes)
		alive.Unlock()
		for p, r := range processes {
			r.quit()
			fmt.Printf("pqd logged:\n%s\n", p.Log())
		}
		fmt.Println("SIGQUIT: all goroutines of the tests")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2) // there is nobody left to tell
		os.Exit(2)
	}()
}

// quit ends a process with its goroutines in its log: they may show why a test has waited in vain.
func (r run) quit() {
	_ = r.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended already
	_ = r.cmd.Process.Signal(syscall.SIGCONT) // a test may have paused it
	select {
	case <-r.exited:
	case <-time.After(Times(afterQuit)):
	}
}
