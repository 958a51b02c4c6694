// This file lets attach.go declare a function without a body.
