# A video server: 48 readers at a stated rate, and one writer that replaces a video every ten seconds.
# Strata's own text with the parameters of filebench's videoserver, but for two: the published file has no run command, and its
# videos of 10 GiB take more than a terabyte. Here they have 64 MiB; --set filesize=10g is as published.
set $dir=/tmp
set $eventrate=96
set $filesize=64m
set $nthreads=48
set $numactivevids=32
set $numpassivevids=194
set $readiosize=256k
set $writeiosize=1m
set $repintval=10

eventgen rate=$eventrate

define fileset name=activevids,path=$dir,entries=$numactivevids,size=$filesize,dirwidth=4,prealloc,paralloc
define fileset name=passivevids,path=$dir,entries=$numpassivevids,size=$filesize,dirwidth=20,prealloc=50,paralloc

define process name=vidwriter,instances=1 {
  thread name=vidwriter,memsize=10m {
    flowop deletefile name=vidremover,filesetname=passivevids
    flowop createfile name=wrtopen,filesetname=passivevids,fd=1
    flowop writewholefile name=newvid,iosize=$writeiosize,fd=1,srcfd=1
    flowop closefile name=wrtclose,fd=1
    flowop delay name=replaceinterval,value=$repintval
  }
}

define process name=vidreaders,instances=1 {
  thread name=vidreaders,instances=$nthreads,memsize=10m {
    flowop read name=vidreader,filesetname=activevids,iosize=$readiosize
    flowop bwlimit name=serverlimit,target=vidreader
  }
}

run 60
