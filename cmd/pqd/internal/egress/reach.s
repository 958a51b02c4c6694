// This file lets reach.go declare a function without a body.
