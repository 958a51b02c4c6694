//go:build unix

package session

import "syscall"

// leadsGroup has a program lead a process group of its own.
func leadsGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the programs of a group to end.
func endGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGTERM) }

// killGroup kills the programs of a group. They may have ended already.
func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
