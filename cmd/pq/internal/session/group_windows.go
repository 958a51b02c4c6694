package session

import (
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// leadsGroup has a program lead a process group of its own.
func leadsGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// endGroup asks the programs of a group to end: there is no SIGTERM, and Ctrl-C does
// not reach a group of its own.
func endGroup(leader int) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(leader))
}

// killGroup kills the leader with the programs that it started. They may have ended
// already.
func killGroup(leader int) {
	_ = exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(leader)).Run()
}
