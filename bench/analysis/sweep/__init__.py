"""Many runs together: measures of each run by Spark, then knees and fits of the few rows left."""
